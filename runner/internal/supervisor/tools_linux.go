package supervisor

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

const (
	// maxToolCalls is how many calls may wait at once.
	maxToolCalls = 64
	// maxToolCall bounds a call's size.
	maxToolCall = 1 << 20
)

// tools are the calls of Sojourn's tools that the agent's processes make, each over a
// connection of its own, until a client has returned a result. They are not spooled: a
// call lives as long as the process that waits for it.
type tools struct {
	listener *net.UnixListener

	mu      sync.Mutex
	closed  bool
	waiting []*toolCall // oldest first
	// changed is closed and replaced when a call arrives.
	changed chan struct{}
	conns   map[net.Conn]struct{}
}

type toolCall struct {
	runner.ToolCall
	result chan runner.ToolResult
}

// listenForTools returns nil if the agent may not call any.
func listenForTools(socket string) (*tools, error) {
	if socket == "" {
		return nil, nil
	}
	l, err := listen(socket)
	if err != nil {
		return nil, err
	}
	return &tools{listener: l, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}, nil
}

// serve takes calls until close.
func (t *tools) serve() {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := acceptUnix(t.listener)
		if err != nil {
			return
		}
		if allowed(conn) != nil || !t.enter(conn) {
			conn.Close()
			continue
		}
		serving.Go(func() {
			defer t.leave(conn)
			t.take(conn)
		})
	}
}

// close ends the waiting calls without a result.
func (t *tools) close() {
	t.listener.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for conn := range t.conns {
		conn.Close()
	}
}

func (t *tools) enter(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.conns) >= maxToolCalls {
		return false
	}
	t.conns[conn] = struct{}{}
	return true
}

func (t *tools) leave(conn net.Conn) {
	conn.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, conn)
}

// take reads one call and writes its result. A caller that hangs up has lost interest.
func (t *tools) take(conn *net.UnixConn) {
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	in := bufio.NewReader(io.LimitReader(conn, maxToolCall))
	call := &toolCall{result: make(chan runner.ToolResult, 1)}
	line, err := wire.ReadLine(in)
	if err == nil {
		err = json.Unmarshal(line, &call.ToolCall)
	}
	if err != nil {
		_ = writeResult(conn, runner.ToolResult{Failed: true, Text: fmt.Sprintf("malformed call: %v", err)})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if !callID.MatchString(call.ID) || t.waits(call.ID) {
		call.ID = rand.Text()
	}
	t.add(call)
	defer t.remove(call)
	gone := make(chan struct{})
	go func() {
		_, _ = in.ReadByte() // ends with the connection at the latest
		close(gone)
	}()
	select {
	case r := <-call.result:
		_ = writeResult(conn, r)
	case <-gone:
	}
}

// writeResult fails only for a caller that has hung up, who needs none.
func writeResult(conn net.Conn, r runner.ToolResult) error {
	line, err := wire.Line(r)
	if err == nil {
		_, err = conn.Write(line)
	}
	return err
}

func (t *tools) add(call *toolCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, call)
	close(t.changed)
	t.changed = make(chan struct{})
}

// callID is the form of the ids that a caller may choose, so that it can ask for a result that it
// did not wait for.
var callID = regexp.MustCompile(`^[A-Z2-7]{26}$`)

func (t *tools) waits(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.waiting, func(c *toolCall) bool { return c.ID == id })
}

func (t *tools) remove(call *toolCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(c *toolCall) bool { return c == call })
}

// calls returns the waiting calls, and a channel that is closed when another one arrives.
func (t *tools) calls() ([]runner.ToolCall, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []runner.ToolCall
	for _, c := range t.waiting {
		all = append(all, c.ToolCall)
	}
	return all, t.changed
}

// settle returns a result to the process that waits for it, if it still does. The call no
// longer waits from here on, whenever that process has read its result: a client that
// attaches then is not sent it again.
func (t *tools) settle(id string, r runner.ToolResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.waiting, func(c *toolCall) bool { return c.ID == id })
	if i < 0 {
		return
	}
	t.waiting[i].result <- r // has room for the one result
	t.waiting = slices.Delete(t.waiting, i, i+1)
}

var errNoTools = errors.New("this agent has no tools of Sojourn's")

// startToolCalls sends a client the tool calls that wait, and each new one.
func (c *client) startToolCalls(req wire.Request) {
	if c.s.tools == nil {
		c.reply(req.ID, nil, errNoTools)
		return
	}
	st := c.openStream(req.ID)
	c.work.Go(func() {
		defer c.closeStream(st)
		sent := map[string]bool{}
		for st.ctx.Err() == nil {
			superseded, err := c.s.epoch.watch(c.epoch)
			if err != nil {
				c.reply(req.ID, nil, err)
				return
			}
			calls, more := c.s.tools.calls()
			for _, call := range calls {
				if !sent[call.ID] {
					sent[call.ID] = true
					c.reply(req.ID, call, nil)
				}
			}
			select {
			case <-more:
			case <-superseded:
			case <-st.ctx.Done():
			}
		}
	})
}

func (c *client) returnTool(r wire.ToolResult) (any, error) {
	if c.s.tools == nil {
		return nil, errNoTools
	}
	c.s.tools.settle(r.Call, runner.ToolResult{Text: r.Text, Failed: r.Failed})
	return nil, nil
}
