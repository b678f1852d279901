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
	// patience is how long a server that is ready may refuse its first event stream, or
	// keep it waiting: OpenCode first installs what the plugins of a workspace use.
	patience = 3 * time.Minute
	// lossDelay is how long the process must outlive the stream's end for that to be a
	// loss: a process that ends closes its stream a little earlier.
	lossDelay = 250 * time.Millisecond
	// drain is how long the last output may take after the process's end. It is in
	// this machine's socket buffers, so only a stream of another process ever takes
	// that long.
	drain = 10 * time.Second
	// The pause between two requests for the event stream doubles between these.
	minPause, maxPause = 20 * time.Millisecond, time.Second
)

// HTTP serves one agent process that runs an HTTP server; see
// [runner.HTTPSpec].
type HTTP struct {
	spec     runner.HTTPSpec
	password string
	client   *http.Client
	// patience, drain and dying are the constants, others in tests.
	patience, drain, dying time.Duration
}

// NewHTTP returns the transport for one process, reached through dial. The spec
// must be valid and have its defaults.
func NewHTTP(spec runner.HTTPSpec, dial Dial) *HTTP {
	h := &HTTP{spec: spec, client: newClient(dial), patience: patience, drain: drain, dying: dying}
	if spec.PasswordEnv != "" {
		h.password = rand.Text()
	}
	return h
}

// Env returns the password's variable.
func (h *HTTP) Env() []string {
	if h.password == "" {
		return nil
	}
	return []string{h.spec.PasswordEnv + "=" + h.password}
}

// EndsWithInput returns false: such an agent does not notice the end of its input.
func (*HTTP) EndsWithInput() bool { return false }

// Serve returns when gone is closed, which means that the process has ended, and
// its output is recorded.
func (h *HTTP) Serve(host Host, p Pipes, gone <-chan struct{}) {
	c := &conversation{HTTP: h, host: host, ready: make(chan struct{}), stream: newGate()}
	var alive, late context.CancelFunc
	c.alive, alive = context.WithCancel(context.Background())
	c.draining, late = context.WithCancel(context.Background())
	defer late()
	defer h.client.CloseIdleConnections()
	var work sync.WaitGroup
	work.Go(func() { host.pump(p.Stdout, event.DirErr, c.findServer) })
	work.Go(func() { host.pump(p.Stderr, event.DirErr, c.findServer) })
	work.Go(c.follow)
	work.Go(c.send)
	<-gone
	p.Stdin.Close()
	alive()
	defer time.AfterFunc(h.drain, late).Stop()
	work.Wait()
}

// conversation is the exchange with one process.
type conversation struct {
	*HTTP
	host Host
	// alive ends with the process, draining when its last output is too late.
	alive, draining context.Context

	once  sync.Once
	base  *url.URL // read only after ready
	ready chan struct{}
	// stream is open while the event stream is open.
	stream *gate
}

// findServer looks for the line with the server's URL, and removes the password from
// the log.
func (c *conversation) findServer(line string) string {
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

// follow records the event stream's data until the process has ended.
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
		if !c.pause(lossDelay) {
			return
		}
		c.host.keep(event.DirSig, []line{{text: "events lost"}})
		if body, _ = c.subscribe(time.Time{}); body != nil {
			c.host.keep(event.DirSig, []line{{text: "events again"}})
		}
	}
}

// listen records events until the stream ends.
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

// subscribe requests the event stream until it is open, or until the deadline if
// there is one; it returns nil when the process has ended.
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

// pause returns false when the process has ended.
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

// events requests the event stream once.
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

// cancelOnClose releases a request's context on Close.
type cancelOnClose struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelOnClose) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// gate lets callers pass while it is open; it is closed at first.
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

// wait returns false if ctx ends first.
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
