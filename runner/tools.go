package runner

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// ToolsSpec lets the agent's processes call Sojourn's tools, by a socket that takes nothing
// else. The zero value does not.
type ToolsSpec struct {
	// Socket is its path, absolute, at most 107 bytes; see [ToolSocketPath].
	Socket string `json:"socket,omitempty"`
	// Program is the program that the agent starts to call them, which it must be able to
	// read: absolute.
	Program string `json:"program,omitempty"`
}

// ToolSocketPath returns the path of the socket for tools beside a control socket.
func ToolSocketPath(control string) string { return control + "t" }

// ToolCall is the call of a tool by a process of the agent.
type ToolCall struct {
	// ID is the same each time that the runner passes the call on, which chooses it unless the
	// caller has.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments are JSON.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// ToolCalls yields the tool calls that wait for a result, then those that the agent makes,
// until ctx or the connection ends. After a lost connection they come again, with the same
// ids. Error: what ended it.
func (c *Conn) ToolCalls(ctx context.Context) iter.Seq2[ToolCall, error] {
	return func(yield func(ToolCall, error) bool) {
		s := &stream{more: make(chan struct{}, 1)}
		id, err := c.register(func(id uint64) { c.streams[id] = s })
		if err == nil {
			defer c.forget(id)
			err = c.send(id, wire.OpToolCalls, nil)
		}
		for err == nil {
			var r wire.Reply
			if r, err = c.next(ctx, s); err != nil {
				c.cancel(id)
				break
			}
			var call ToolCall
			if err = decodeReply(r, &call); err == nil && !yield(call, nil) {
				c.cancel(id)
				return
			}
		}
		yield(ToolCall{}, wrap("tool calls", err))
	}
}

// ReturnTool passes the result of a tool call to the agent. A call whose process has gone
// is no error.
func (c *Conn) ReturnTool(ctx context.Context, id string, r ToolResult) error {
	return wrap("tool result", c.call(ctx, wire.OpToolResult, wire.ToolResult{Call: id, Text: r.Text, Failed: r.Failed}, nil))
}
