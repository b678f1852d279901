// Package ticks counts an execution's model calls, its ticks, and keeps its last tool
// calls, to show while it runs. It does no I/O.
package ticks

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
)

// Counter counts the model and tool calls of an execution's main conversation. A native
// subagent's calls are its own: most agents report them partly or not at all. The zero
// value is ready. Not safe for concurrent use.
type Counter struct {
	// Ticks counts the model calls that have started; nil while the agent has reported
	// none, and always for an agent that can't distinguish its calls.
	Ticks *int
	// Tools are the last tool calls, oldest first, at most MaxTools.
	Tools []Tool
}

// Tool is a tool call in short.
type Tool struct {
	ToolUseID string `json:"toolUseId"`
	Name      string `json:"name"`
	// Input and Output are JSON, or a text, in one line of at most MaxLine bytes and an
	// ellipsis. Output is nil until the call has ended.
	Input   string  `json:"input,omitempty"`
	Output  *string `json:"output,omitempty"`
	IsError bool    `json:"isError,omitempty"`
}

// Bounds of what is kept, which is part of heartbeats and workflow history.
const (
	MaxTools = 5
	MaxLine  = 160
)

// Add adds the next event.
func (c *Counter) Add(ev event.Event) {
	if ev.Context.Conversation() != event.Main {
		return
	}
	switch p := ev.Payload.(type) {
	case event.MetadataUpdate:
		if p.Calls > 0 {
			c.Ticks = event.AddKnown(c.Ticks, &p.Calls)
		}
	case event.BlockUpsert:
		c.addBlock(p.Block)
	}
}

// Done counts the model calls that another one has followed: the last one may be running. 0
// for an agent that reports none.
func (c *Counter) Done() int {
	if c.Ticks == nil {
		return 0
	}
	return max(*c.Ticks-1, 0)
}

func (c *Counter) addBlock(b event.Block) {
	if b.ToolUseID == "" || b.Type != event.BlockToolUse && b.Type != event.BlockToolResult {
		return
	}
	at := slices.IndexFunc(c.Tools, func(t Tool) bool { return t.ToolUseID == b.ToolUseID })
	if at < 0 && b.Type == event.BlockToolResult {
		return // its call is no longer among the last
	}
	if at < 0 {
		at = len(c.Tools)
		c.Tools = append(c.Tools, Tool{ToolUseID: b.ToolUseID})
	}
	c.Tools[at].merge(b)
	if over := len(c.Tools) - MaxTools; over > 0 {
		c.Tools = slices.Clone(c.Tools[over:])
	}
}

func (t *Tool) merge(b event.Block) {
	if b.ToolName != "" {
		t.Name = b.ToolName
	}
	if b.Input != nil && b.Type == event.BlockToolUse {
		t.Input = line(b.Input)
	}
	if b.Output != nil {
		out := line(b.Output)
		t.Output = &out
	}
	if b.IsError != nil {
		t.IsError = *b.IsError
	}
}

// line returns JSON as a line for people.
func line(raw json.RawMessage) string {
	return strings.Join(strings.Fields(brief.Truncate(brief.Line(raw), MaxLine)), " ")
}
