package transport

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
)

const (
	// patience is how long a server that is up may refuse its first event
	// stream.
	patience = time.Minute
	// settle is how long after the stream's end the process must live for that
	// to be a loss: a process that ends closes its stream a little earlier.
	settle = 250 * time.Millisecond
	// drain is how long after the process's end its last words may take. They
	// lie in this machine's socket buffers, so only a stream that is not the
	// process's own ever takes that long.
	drain = 10 * time.Second
	// The pause between two tries for the event stream doubles between these.
	minPause, maxPause = 20 * time.Millisecond, time.Second
)

// HTTP serves one agent process that runs an HTTP server; see
// [runner.HTTPSpec].
type HTTP struct {
	spec     runner.HTTPSpec
	password string
	client   *http.Client
	// patience and drain are the constants.
	patience, drain time.Duration
}

// NewHTTP makes the transport for one process, which is reached by dial. The spec
// is valid and has its defaults.
func NewHTTP(spec runner.HTTPSpec, dial Dial) *HTTP {
	h := &HTTP{spec: spec, client: newClient(dial), patience: patience, drain: drain}
	if spec.PasswordEnv != "" {
		h.password = rand.Text()
	}
	return h
}

// Env is the password's setting.
func (h *HTTP) Env() []string {
	if h.password == "" {
		return nil
	}
	return []string{h.spec.PasswordEnv + "=" + h.password}
}

// EndsWithInput returns false: such an agent does not notice the end of its input.
func (*HTTP) EndsWithInput() bool { return false }

// Serve returns when the process is gone, which the closing of gone says, and
// all it said is kept.
func (h *HTTP) Serve(host Host, p Pipes, gone <-chan struct{}) {
	c := &conversation{HTTP: h, host: host, ready: make(chan struct{}), stream: newGate()}
	var alive, late context.CancelFunc
	c.alive, alive = context.WithCancel(context.Background())
	c.draining, late = context.WithCancel(context.Background())
	defer late()
	defer h.client.CloseIdleConnections()
	var work sync.WaitGroup
	work.Go(func() { host.pump(p.Stdout, event.DirErr, c.hear) })
	work.Go(func() { host.pump(p.Stderr, event.DirErr, c.hear) })
	work.Go(c.follow)
	work.Go(c.send)
	<-gone
	p.Stdin.Close()
	alive()
	defer time.AfterFunc(h.drain, late).Stop()
	work.Wait()
}

// conversation is one process's.
type conversation struct {
	*HTTP
	host Host
	// alive ends with the process, draining when its last words are too late.
	alive, draining context.Context

	once  sync.Once
	base  *url.URL // to be read after ready
	ready chan struct{}
	// stream is open while the event stream is.
	stream *gate
}

// hear looks for the line that says where the server is, and takes the
// password out of the log.
func (c *conversation) hear(line string) string {
	if where, found := strings.CutPrefix(line, c.spec.Ready); found {
		c.once.Do(func() { c.announce(where) })
	}
	if c.password != "" {
		line = strings.ReplaceAll(line, c.password, "[password]")
	}
	return line
}

func (c *conversation) announce(where string) {
	base, err := baseURL(where)
	if err != nil {
		c.host.Fail(err)
		return
	}
	c.base = base
	close(c.ready)
}

// follow keeps the event stream's data until the process is gone.
func (c *conversation) follow() {
	select {
	case <-c.ready:
	case <-c.alive.Done():
		return
	}
	body, err := c.subscribe(time.Now().Add(c.patience))
	if err != nil {
		c.host.Fail(fmt.Errorf("event stream %s: %w", c.spec.Events, err))
		return
	}
	for body != nil {
		c.stream.open()
		c.listen(body)
		c.stream.shut()
		if !c.pause(settle) {
			return
		}
		c.host.keep(event.DirSig, []line{{text: "events lost"}})
		if body, _ = c.subscribe(time.Time{}); body != nil {
			c.host.keep(event.DirSig, []line{{text: "events again"}})
		}
	}
}

// listen keeps events until the stream ends.
func (c *conversation) listen(body io.ReadCloser) {
	defer body.Close()
	events := sse{lines: splitter{max: c.host.MaxLine, prefix: "data:"}}
	buf := make([]byte, readSize)
	for {
		n, err := body.Read(buf)
		found := events.cut(buf[:n])
		for i := range found {
			found[i].text = oneLine(found[i].text)
		}
		c.host.keep(event.DirOut, found)
		if err != nil {
			return
		}
	}
}

// subscribe tries for the event stream until it stands, or until the deadline
// if there is one; nothing when the process is gone.
func (c *conversation) subscribe(deadline time.Time) (io.ReadCloser, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		body, err := c.events()
		switch {
		case err == nil:
			return body, nil
		case !c.pause(pause):
			return nil, nil
		case !deadline.IsZero() && time.Now().After(deadline):
			return nil, err
		}
	}
}

// pause is false when the process is gone.
func (c *conversation) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.alive.Done():
		return false
	case <-t.C:
		return true
	}
}

// events asks for the event stream once.
func (c *conversation) events() (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(c.draining)
	timer := time.AfterFunc(c.spec.RequestTimeout, cancel)
	body, err := c.open(ctx)
	if !timer.Stop() {
		if body != nil {
			body.Close()
		}
		err = fmt.Errorf("no response within %v", c.spec.RequestTimeout)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return cancelOnClose{body, cancel}, nil
}

func (c *conversation) open(ctx context.Context) (io.ReadCloser, error) {
	req, err := c.request(ctx, http.MethodGet, c.spec.Events, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	return resp.Body, nil
}

// cancelOnClose frees what a request's context holds.
type cancelOnClose struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelOnClose) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// gate lets pass while it is open; it begins shut.
type gate struct {
	mu   sync.Mutex
	pass chan struct{} // closed while open
}

func newGate() *gate { return &gate{pass: make(chan struct{})} }

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.pass)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = make(chan struct{})
}

// wait is false when ctx ends first.
func (g *gate) wait(ctx context.Context) bool {
	g.mu.Lock()
	pass := g.pass
	g.mu.Unlock()
	select {
	case <-pass:
		return true
	case <-ctx.Done():
		return false
	}
}
