package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	hintStart     = "start NATS with JetStream (nats-server -js), or set NATS_URL to one that runs"
	hintURL       = "correct NATS_URL"
	hintAccess    = "set one of NATS_CREDS, NATS_NKEY, NATS_TOKEN, or NATS_USER and NATS_PASSWORD, to what this server accepts"
	hintJetStream = "start the server with JetStream on (nats-server -js), and give this user's account JetStream"
)

// setup makes the stream, or adds what is missing to an existing one.
func (l *Log) setup(ctx context.Context) error {
	err := l.patiently(ctx, l.ensureStream)
	if err == nil {
		return nil
	}
	addr := l.nc.ConnectedUrl()
	if addr == "" {
		addr = strings.Join(l.nc.Servers(), ",")
	}
	addr = Redacted(addr)
	switch {
	case errors.Is(err, errForeign):
		return fmt.Errorf("stream: open %s at %s: %w", l.opts.Name, addr, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return &UnreachableError{Addr: addr, Hint: hintJetStream, Err: err}
	}
	return &UnreachableError{Addr: addr, Hint: hintStart, Err: err}
}

// errForeign means that a stream of this name was made for something else.
var errForeign = errors.New("the stream of this name serves other subjects")

func (l *Log) ensureStream(ctx context.Context) error {
	s, err := l.js.Stream(ctx, l.opts.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = l.js.CreateStream(ctx, l.wanted())
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		// Another process was faster.
		s, err = l.js.Stream(ctx, l.opts.Name)
	}
	if err != nil {
		return err
	}
	return l.amend(ctx, s.CachedInfo().Config)
}

// wanted returns the stream's configuration. Message numbers begin at the time,
// in microseconds, so a stream that is made again after a deletion never repeats
// a number: a writer or reader with a place in the old stream is behind
// everything in the new one.
func (l *Log) wanted() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		FirstSeq:    uint64(time.Now().UnixMicro()),
		Name:        l.opts.Name,
		Description: "Sojourn: live events of sessions",
		Subjects:    []string{l.opts.Prefix + ".>"},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      l.opts.MaxAge,
		Replicas:    l.opts.Replicas,
		AllowDirect: true,
		RePublish:   &jetstream.RePublish{Source: l.opts.Prefix + ".>", Destination: l.opts.Prefix + "-live.>"},
	}
}

// deletionTime is longer than a server takes to delete a stream. The server
// forgets the name first and then removes the folder; a stream made in between
// loses its folder too. It works, acknowledges messages, and is gone after the
// server's restart.
const deletionTime = 2 * time.Second

// restore makes the stream again if it was deleted, and reports whether it was.
func (l *Log) restore(ctx context.Context) bool {
	err := l.once(ctx, 1, func(ctx context.Context) error {
		_, err := l.js.Stream(ctx, l.opts.Name)
		return err
	})
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false
	}
	if err := pause(ctx, deletionTime); err != nil {
		return false
	}
	err = l.once(ctx, 1, l.ensureStream)
	l.opts.Logger.WarnContext(ctx, "the stream was deleted: it is made anew, without the events it had", "stream", l.opts.Name, "error", err)
	return err == nil
}

// amend keeps an operator's choices: it corrects only what reading and writing
// need.
func (l *Log) amend(ctx context.Context, have jetstream.StreamConfig) error {
	want := l.wanted()
	if !slices.Equal(have.Subjects, want.Subjects) || have.RePublish != nil && *have.RePublish != *want.RePublish {
		return fmt.Errorf("%w: it has %q, want %q", errForeign, have.Subjects, want.Subjects)
	}
	if have.AllowDirect && have.RePublish != nil {
		return nil
	}
	have.AllowDirect, have.RePublish = true, want.RePublish
	_, err := l.js.UpdateStream(ctx, have)
	return err
}
