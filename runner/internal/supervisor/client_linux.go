package supervisor

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// helloTime is how long a connection may take to send its hello.
const helloTime = 10 * time.Second

// client is one connection.
type client struct {
	s      *Supervisor
	conn   *net.UnixConn
	epoch  uint64
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	work   sync.WaitGroup

	writing sync.Mutex

	mu      sync.Mutex
	streams map[uint64]*stream
}

// acceptUnix returns the next connection. That the machine has no more files, for example, is
// no reason to take none any more: the only error is that the listener is closed.
func acceptUnix(l *net.UnixListener) (*net.UnixConn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		time.Sleep(acceptAgain)
	}
}

// acceptAgain is when a connection is accepted again that could not be.
const acceptAgain = 50 * time.Millisecond

// accept serves every connection until the listener is closed, and waits for
// them.
func (s *Supervisor) accept() {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := acceptUnix(s.listener)
		if err != nil {
			return
		}
		if err := allowed(conn); err != nil {
			s.log.Warn("connection refused", "error", err)
			conn.Close()
			continue
		}
		c := &client{s: s, conn: conn, streams: map[uint64]*stream{}}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		s.enter(c)
		serving.Go(c.serve)
	}
}

func (s *Supervisor) enter(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c] = struct{}{}
}

func (s *Supervisor) exit(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	if len(s.clients) == 0 {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

func (s *Supervisor) clientCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// hangUp ends every connection.
func (s *Supervisor) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		c.conn.Close()
	}
}

// serve reads requests until the connection ends.
func (c *client) serve() {
	defer c.s.exit(c)
	defer c.work.Wait()
	defer c.conn.Close()
	defer c.cancel()
	in := bufio.NewReaderSize(c.conn, 64<<10)
	if err := c.greet(in); err != nil {
		c.s.log.Warn("client refused", "error", err)
		return
	}
	for {
		req, err := readRequest(in)
		if err != nil {
			return
		}
		c.handle(req)
	}
}

func readRequest(in *bufio.Reader) (wire.Request, error) {
	var req wire.Request
	line, err := wire.ReadLine(in)
	if err != nil {
		return req, err
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return req, fmt.Errorf("malformed request: %w", err)
	}
	return req, nil
}

// greet reads the hello and answers it.
func (c *client) greet(in *bufio.Reader) error {
	if err := c.conn.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return err
	}
	req, err := readRequest(in)
	if err != nil {
		return err
	}
	if err := c.admit(req); err != nil {
		c.reply(req.ID, nil, err)
		return err
	}
	c.reply(req.ID, c.s.status(), nil)
	return c.conn.SetReadDeadline(time.Time{})
}

func (c *client) admit(req wire.Request) error {
	if req.Op != wire.OpHello {
		return fmt.Errorf("the first request is %q, want hello", req.Op)
	}
	hello, err := wire.Args[wire.Hello](req)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(hello.Token), []byte(c.s.spec.Token)) != 1 {
		return runner.ErrToken
	}
	c.epoch = hello.Epoch
	c.s.contact.renew()
	return c.s.epoch.raise(c.s.control, hello.Epoch)
}

// handle runs one request. Slow ones get a goroutine, so that the requests behind
// them are read.
func (c *client) handle(req wire.Request) {
	c.s.contact.renew()
	switch req.Op {
	case wire.OpCredit:
		c.grant(req)
	case wire.OpCancel:
		c.stopStream(req)
	case wire.OpRecords:
		c.startStream(req)
	case wire.OpToolCalls:
		c.startToolCalls(req)
	case wire.OpStop, wire.OpSweep, wire.OpProcesses:
		c.work.Go(func() { c.answer(req) })
	default:
		c.answer(req)
	}
}

func (c *client) answer(req wire.Request) {
	result, err := c.perform(req)
	c.reply(req.ID, result, err)
	if req.Op == wire.OpStop && err == nil {
		c.s.stopLingering()
	}
}

// perform runs a request unless a higher epoch has taken over. Only requests that
// return at once hold the epoch's lock.
func (c *client) perform(req wire.Request) (result any, err error) {
	switch req.Op {
	case wire.OpStop:
		return with(req, c.stopAgent)
	case wire.OpSweep:
		return with(req, c.sweep)
	}
	err = c.s.epoch.under(c.epoch, func() error {
		result, err = c.performNow(req)
		return err
	})
	return result, err
}

func (c *client) performNow(req wire.Request) (any, error) {
	switch req.Op {
	case wire.OpStatus:
		return c.s.status(), nil
	case wire.OpInput:
		return with(req, func(a wire.Input) (any, error) { return c.s.input.accept(a.Key, a.Data, c.epoch) })
	case wire.OpCloseInput:
		c.s.input.close()
		return nil, nil
	case wire.OpSignal:
		return with(req, func(a wire.Signal) (any, error) { return nil, c.s.processTree.signal(syscall.Signal(a.Signal)) })
	case wire.OpLease:
		return with(req, c.arm)
	case wire.OpProcesses:
		return c.s.processTree.below()
	case wire.OpToolResult:
		return with(req, c.returnTool)
	case wire.OpTrim:
		return with(req, func(a wire.Trim) (any, error) { return nil, c.s.spool.Trim(a.Before) })
	}
	return nil, fmt.Errorf("unknown request %q", req.Op)
}

// with decodes a request's arguments and calls do.
func with[A any](req wire.Request, do func(A) (any, error)) (any, error) {
	args, err := wire.Args[A](req)
	if err != nil {
		return nil, err
	}
	return do(args)
}

func (c *client) arm(lease wire.Lease) (any, error) {
	if c.s.exited() {
		return nil, runner.ErrExited
	}
	return nil, c.s.lease.arm(lease)
}

func (c *client) stopAgent(grace runner.Grace) (any, error) {
	if _, err := c.s.epoch.watch(c.epoch); err != nil {
		return nil, err
	}
	// A stop once started is completed, whether or not its sender lives.
	if err := c.s.stop(context.Background(), grace); err != nil {
		return nil, err
	}
	return c.s.status(), nil
}

func (c *client) sweep(mark runner.Mark) (any, error) {
	if _, err := c.s.epoch.watch(c.epoch); err != nil {
		return nil, err
	}
	return c.s.processTree.sweep(mark, sweepLimit)
}

// reply answers a request; a client that has disconnected is skipped.
func (c *client) reply(id uint64, result any, err error) {
	r := wire.Reply{ID: id, Error: runner.EncodeError(err)}
	if err == nil && result != nil {
		if r.Result, err = json.Marshal(result); err != nil {
			r.Error = runner.EncodeError(err)
		}
	}
	line, err := wire.Line(r)
	if err == nil {
		c.write(line)
	}
}

// write writes whole lines. A failure ends the connection.
func (c *client) write(lines []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.conn.Write(lines); err != nil {
		c.conn.Close()
	}
}
