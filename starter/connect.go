package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

const (
	// connectTimeout is for the first request to a server: long enough for one that is
	// busy, short enough for a person, who is told what is waited for.
	connectTimeout = 10 * time.Second
	// requestTimeout is for requests that a server should answer at once.
	requestTimeout = 20 * time.Second

	hintTemporal = "start Temporal (sojourn-devstack is one), or set TEMPORAL_ADDRESS to one that runs"
)

// connections are made once, when a command first needs them.
type connections struct {
	options  *client.Options
	temporal client.Client
	log      *stream.Log
	archive  *archive.Archive
}

func (cs *connections) close() {
	if cs.temporal != nil {
		cs.temporal.Close()
	}
	if cs.log != nil {
		cs.log.Close()
	}
}

// temporalOptions reads the Temporal profile, with a silent logger: what matters
// is returned as an error.
func (c *cli) temporalOptions() (client.Options, error) {
	if c.conns.options != nil {
		return *c.conns.options, nil
	}
	o, err := c.env.Temporal()
	if err != nil {
		return o, failed("check the TEMPORAL_ settings and the Temporal config file", "%s", err)
	}
	o.Identity = "sojourn"
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c.conns.options = &o
	return o, nil
}

// temporalUnasked returns a client that has not sent a request yet.
func (c *cli) temporalUnasked(ctx context.Context) (client.Client, error) {
	if c.conns.temporal != nil {
		return c.conns.temporal, nil
	}
	o, err := c.temporalOptions()
	if err != nil {
		return nil, err
	}
	store, err := c.archive(ctx)
	if err != nil {
		return nil, err
	}
	if o, err = session.WithPayloads(o, store); err != nil {
		return nil, err
	}
	t, err := client.NewLazyClient(o)
	if err != nil {
		return nil, failed("check the TEMPORAL_ settings", "Temporal at %s: %s", o.HostPort, err)
	}
	c.conns.temporal = t
	return t, nil
}

// temporal returns a client whose server has answered.
func (c *cli) temporal(ctx context.Context) (client.Client, error) {
	t, err := c.temporalUnasked(ctx)
	if err != nil {
		return nil, err
	}
	asking, done := c.connecting(ctx, "Temporal")
	defer done()
	if _, err := t.CheckHealth(asking, &client.CheckHealthRequest{}); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, failed(hintTemporal, "Temporal at %s is not reachable: %s", c.conns.options.HostPort, networkReason(err))
	}
	return t, nil
}

// networkReason returns the end of a long error about a connection.
func networkReason(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, "dial tcp "); i >= 0 {
		return strings.Trim(s[i:], `"'. `)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + connectTimeout.String()
	}
	return s
}

// log returns the live event log.
func (c *cli) log(ctx context.Context) (*stream.Log, error) {
	if c.conns.log != nil {
		return c.conns.log, nil
	}
	o, err := c.temporalOptions()
	if err != nil {
		return nil, err
	}
	asking, done := c.connecting(ctx, "NATS")
	defer done()
	c.conns.log, err = stream.Dial(asking, c.env.NATS(), stream.Options{Namespace: o.Namespace, Access: c.env.NATSAccess()})
	return c.conns.log, err
}

// archive returns the archive, without a request to it.
func (c *cli) archive(ctx context.Context) (*archive.Archive, error) {
	if c.conns.archive != nil {
		return c.conns.archive, nil
	}
	o, err := c.temporalOptions()
	if err != nil {
		return nil, err
	}
	c.conns.archive, err = archive.Open(ctx, archive.Options{
		Folder: c.env.Get("SOJOURN_ARCHIVE_DIR"), Bucket: c.env.Get("SOJOURN_BUCKET"), Prefix: c.env.Get("SOJOURN_PREFIX"), Namespace: o.Namespace,
	})
	return c.conns.archive, err
}

// archiveAnswers returns the archive after its store has answered: the first
// request must not wait through all the retries of a patient client.
func (c *cli) archiveAnswers(ctx context.Context) (*archive.Archive, error) {
	asking, done := c.connecting(ctx, "the archive's store")
	defer done()
	found, err := c.probeStore(asking)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case !found:
		return nil, failed("sojourn setup makes it, or set SOJOURN_BUCKET or SOJOURN_ARCHIVE_DIR", "there is no %s", c.storeAddress())
	}
	return c.archive(ctx)
}

// need is the set of servers that a command uses.
type need int

const (
	needTemporal need = 1 << iota
	needStream
	needArchive
	// needArchiveNow is needArchive with a store that is known to answer.
	needArchiveNow
)

// client returns a session client for the needed servers; Temporal and the stream
// are known to answer.
func (c *cli) client(ctx context.Context, n need) (*session.Client, error) {
	settings, err := c.temporalOptions()
	if err != nil {
		return nil, err
	}
	o := session.ClientOptions{Agents: c.agents, Profile: c.checkProfile, Namespace: settings.Namespace, MaxTimelineEntries: c.maxEntries}
	if n&needTemporal != 0 {
		o.Temporal, err = c.temporal(ctx)
	} else {
		o.Temporal, err = c.temporalUnasked(ctx)
	}
	if err != nil {
		return nil, err
	}
	if n&needStream != 0 {
		if o.Stream, err = c.log(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case n&needArchiveNow != 0:
		o.Archive, err = c.archiveAnswers(ctx)
	case n&needArchive != 0:
		o.Archive, err = c.archive(ctx)
	}
	if err != nil {
		return nil, err
	}
	return session.NewClient(o)
}

// handle finds a session. The archive is queried only for one that Temporal does
// not have.
func (c *cli) handle(ctx context.Context, id string, n need) (*session.Handle, error) {
	if err := session.ValidateID("id", id); err != nil {
		return nil, err
	}
	h, err := c.find(ctx, id, n|needTemporal)
	if errors.Is(err, session.ErrNotFound) {
		return c.find(ctx, id, n|needTemporal|needArchiveNow)
	}
	return h, err
}

func (c *cli) find(ctx context.Context, id string, n need) (*session.Handle, error) {
	sc, err := c.client(ctx, n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return sc.Get(ctx, id)
}

// connecting bounds the first request to a server, and prints what is waited for if it
// takes long. The caller must call done.
func (c *cli) connecting(ctx context.Context, server string) (asking context.Context, done func()) {
	asking, cancel := context.WithTimeout(ctx, connectTimeout)
	stop := c.patience("waiting for %s to answer", server)
	return asking, func() { cancel(); stop() }
}

// patience prints what is waited for if it takes longer than two seconds. The
// caller must call stop, which waits for the printing goroutine.
func (c *cli) patience(format string, args ...any) (stop func()) {
	done, printed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(printed)
		t := time.NewTimer(2 * time.Second)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			fmt.Fprintf(c.stderr, "sojourn: %s\n", fmt.Sprintf(format, args...))
		}
	}()
	return func() { close(done); <-printed }
}

// pendingEvery is how often a waiting command checks what the session waits for.
const pendingEvery = 2 * time.Second

// sayPending prints what the session waits for: what it retries, or a free slot.
// Each thing is printed once. Where otherwise is set a message waits: the limit that
// keeps it from running is printed too, or otherwise, if it waits for nothing. The
// caller must call stop, which waits for the printing goroutine.
func (c *cli) sayPending(ctx context.Context, h *session.Handle, otherwise string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		clock := time.NewTicker(pendingEvery)
		defer clock.Stop()
		said := map[string]bool{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
			}
			lines, err := waitsFor(ctx, h, otherwise)
			if err != nil {
				continue // the command itself prints it
			}
			for _, line := range lines {
				if !said[line] {
					said[line] = true
					fmt.Fprintf(c.stderr, "sojourn: %s\n", line)
				}
			}
		}
	}()
	return func() { cancel(); <-printed }
}

// waitsFor returns the lines of sayPending.
func waitsFor(ctx context.Context, h *session.Handle, otherwise string) (lines []string, err error) {
	pending, err := h.Pending(ctx)
	for _, p := range pending {
		lines = append(lines, fmt.Sprintf("session %s waits for %s: %s", h.ID(), p.Activity, oneLine(p.Failure)))
	}
	if err != nil || len(lines) > 0 || otherwise == "" {
		return lines, err
	}
	limit, err := h.PausedBy(ctx)
	if limit != "" {
		return []string{fmt.Sprintf("session %s is paused: %s (sojourn configure %s --max-… raises it)", h.ID(), oneLine(limit), h.ID())}, err
	}
	return []string{otherwise}, err
}
