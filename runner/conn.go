package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// Conn is one connection to a runner. All methods may be called concurrently;
// streams of records and calls do not hold each other up. After the
// connection has broken every method returns [ErrClosed].
type Conn struct {
	rwc  io.ReadWriteCloser
	done chan struct{}

	writing sync.Mutex

	mu      sync.Mutex
	lastID  uint64
	calls   map[uint64]chan wire.Reply
	streams map[uint64]*stream
	broken  error
	hello   Status
}

// Dial speaks the runner's protocol over rwc and presents token and epoch. It
// owns rwc: Close closes it, and so does an error here. Closing rwc must unblock
// its Read. Errors: [ErrToken], [ErrEpoch], [ErrVersion], ctx's, or [ErrClosed].
func Dial(ctx context.Context, rwc io.ReadWriteCloser, token string, epoch uint64) (*Conn, error) {
	c := &Conn{
		rwc:     rwc,
		done:    make(chan struct{}),
		calls:   map[uint64]chan wire.Reply{},
		streams: map[uint64]*stream{},
	}
	go c.read()
	err := c.call(ctx, wire.OpHello, wire.Hello{Token: token, Epoch: epoch}, &c.hello)
	if err == nil {
		err = CheckProtocol(c.hello)
	}
	if err != nil {
		c.Close()
		return nil, wrap("attach", err)
	}
	return c, nil
}

// DialSocket connects to a control socket on this machine, without a bridge.
func DialSocket(ctx context.Context, socket, token string, epoch uint64) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, wrap("attach", err)
	}
	return Dial(ctx, nc, token, epoch)
}

// Close ends the connection and every stream and call on it. The agent is not
// affected. It may be called again.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	err := c.rwc.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Attached returns the status at the time of connecting.
func (c *Conn) Attached() Status { return c.hello }

// Status returns the current status of runner and agent.
func (c *Conn) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.call(ctx, wire.OpStatus, nil, &s)
	return s, wrap("status", err)
}

// Input passes data to the agent, once per id: one or more whole lines (a missing
// last line end is added), which the agent's transport interprets ([StartSpec]).
// It returns when id and bytes are on disk; they reach the agent in the order of
// the calls' acknowledgements. Errors: [ErrExited], [ErrStdinClosed],
// [ErrBacklog], [ErrEpoch].
func (c *Conn) Input(ctx context.Context, id string, data []byte) (Ack, error) {
	if id == "" {
		return Ack{}, errors.New("runner: input: the id is empty")
	}
	var ack Ack
	err := c.call(ctx, wire.OpInput, wire.Input{Key: id, Data: data}, &ack)
	return ack, wrap("input "+id, err)
}

// CloseInput closes the agent's input, behind the queued inputs. An agent of the
// transport "http" doesn't notice; further inputs are refused.
func (c *Conn) CloseInput(ctx context.Context) error {
	return wrap("close input", c.call(ctx, wire.OpCloseInput, nil, nil))
}

// Signal sends a signal to the agent process alone. Error: [ErrExited].
func (c *Conn) Signal(ctx context.Context, sig syscall.Signal) error {
	return wrap("signal", c.call(ctx, wire.OpSignal, wire.Signal{Signal: int(sig)}, nil))
}

// Stop ends the agent in steps (input closed, SIGTERM, SIGKILL) with the given
// graces, those of the start where zero, and returns when no process is left
// below the runner. An agent that has already exited is not an error. The
// supervisor ends when the last connection has ended.
func (c *Conn) Stop(ctx context.Context, grace Grace) (Status, error) {
	var s Status
	err := c.call(ctx, wire.OpStop, grace, &s)
	return s, wrap("stop", err)
}

// Lease lets the agent live for ttl from now, unless renewed; then the kernel
// ends the supervisor and with it the agent, whatever state they are in. Zero
// disarms. Without a PID namespace ([Isolation]) processes that the agent has
// detached survive that; the provider's Terminate finds them.
func (c *Conn) Lease(ctx context.Context, ttl time.Duration) error {
	return c.LeaseSince(ctx, ttl, BootTime())
}

// LeaseSince is Lease with the ttl counted from an earlier moment of [BootTime],
// such as the sending of the heartbeat that the lease depends on. A runner on
// another machine counts from arrival.
func (c *Conn) LeaseSince(ctx context.Context, ttl time.Duration, since BootClock) error {
	if ttl < 0 {
		return fmt.Errorf("runner: lease: %v is negative", ttl)
	}
	args := wire.Lease{TTL: int64(ttl), Boot: since.Boot, Since: int64(since.At)}
	return wrap("lease", c.call(ctx, wire.OpLease, args, nil))
}

// Processes lists the processes below the agent, without the agent itself.
func (c *Conn) Processes(ctx context.Context) ([]Process, error) {
	var ps []Process
	err := c.call(ctx, wire.OpProcesses, nil, &ps)
	return ps, wrap("processes", err)
}

// Mark returns a snapshot of the processes below the agent.
func (c *Conn) Mark(ctx context.Context) (Mark, error) {
	ps, err := c.Processes(ctx)
	return Mark{Processes: ps}, err
}

// Sweep kills the processes below the agent that are not in the mark, repeatedly
// until no new ones appear; the zero Mark means everything but the agent itself.
func (c *Conn) Sweep(ctx context.Context, m Mark) (Swept, error) {
	var s Swept
	err := c.call(ctx, wire.OpSweep, m, &s)
	return s, wrap("sweep", err)
}

// Trim lets the runner delete spool segments that are wholly before an offset.
func (c *Conn) Trim(ctx context.Context, before int64) error {
	return wrap("trim", c.call(ctx, wire.OpTrim, wire.Trim{Before: before}, nil))
}

// call sends a request and decodes its reply into result, if that is not nil.
func (c *Conn) call(ctx context.Context, op string, args, result any) error {
	reply := make(chan wire.Reply, 1)
	id, err := c.register(func(id uint64) { c.calls[id] = reply })
	if err != nil {
		return err
	}
	defer c.forget(id)
	if err := c.send(id, op, args); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		// The reply may have come just before the end.
		select {
		case r := <-reply:
			return decodeReply(r, result)
		default:
			return c.cause()
		}
	case r := <-reply:
		return decodeReply(r, result)
	}
}

func decodeReply(r wire.Reply, result any) error {
	if r.Error != nil {
		return DecodeError(r.Error)
	}
	if result == nil || len(r.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		return fmt.Errorf("malformed result: %w", err)
	}
	return nil
}

func (c *Conn) register(add func(id uint64)) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, c.broken
	}
	c.lastID++
	add(c.lastID)
	return c.lastID, nil
}

func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
	delete(c.streams, id)
}

func (c *Conn) send(id uint64, op string, args any) error {
	req := wire.Request{ID: id, Op: op}
	if args != nil {
		raw, err := json.Marshal(args)
		if err != nil {
			return err
		}
		req.Args = raw
	}
	line, err := wire.Line(req)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.rwc.Write(line); err != nil {
		c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
		return c.cause()
	}
	return nil
}

// read owns the receiving side until it ends.
func (c *Conn) read() {
	defer close(c.done)
	in := bufio.NewReaderSize(c.rwc, 64<<10)
	for {
		line, err := wire.ReadLine(in)
		if err != nil {
			c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
			return
		}
		reply, err := wire.ParseReply(line)
		if err != nil {
			c.fail(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
		c.deliver(reply)
	}
}

func (c *Conn) deliver(r wire.Reply) {
	c.mu.Lock()
	call, s := c.calls[r.ID], c.streams[r.ID]
	delete(c.calls, r.ID)
	c.mu.Unlock()
	if call != nil {
		call <- r
	}
	if s != nil {
		s.push(r)
	}
}

// fail keeps the first cause and wakes the streams.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = err
	}
	for _, s := range c.streams {
		s.wake()
	}
}

func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}
