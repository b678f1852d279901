package effects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
)

// Unknown reports whether a block is the result of a call whose effect is unknown.
func Unknown(b event.Block) bool {
	return b.Type == event.BlockToolResult && string(b.Metadata["effect"]) == `"unknown"`
}

// Call is a call whose effect is unknown.
type Call struct {
	ConversationID string          `json:"conversationId"`
	ToolUseID      string          `json:"toolUseId"`
	ToolName       string          `json:"toolName,omitempty"`
	Input          json.RawMessage `json:"input,omitempty"`
}

// Calls are the calls of an execution. Not safe for concurrent use.
type Calls struct {
	// ExecutionID is the execution's. What was added before its start is of earlier
	// executions.
	ExecutionID string

	started bool
	order   []*known
	// byID has a call under its block's id and under its own.
	byID map[string]*known
}

// known is the state of a call.
type known struct {
	Call
	// earlier: it is of an earlier execution; so is a call of which only a change was
	// added.
	earlier bool
	// begun: it was passed to its tool.
	begun bool
	// lost: the agent has it no more, and may make another one with its id.
	lost bool
	// done: it has a result. succeeded: it needs none.
	done, succeeded bool
	// marked: it has a result that marks it as unknown.
	marked bool
}

// begin makes all calls so far calls of earlier executions.
func (c *Calls) begin() {
	c.started = true
	for _, k := range c.order {
		*k = known{Call: Call{ConversationID: k.ConversationID, ToolUseID: k.ToolUseID}, earlier: true, done: true}
	}
}

// Add adds the next event of the stream.
func (c *Calls) Add(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		if p.ExecutionID == c.ExecutionID && !c.started {
			c.begin()
		}
	case event.BlockUpsert:
		c.block(ev.Context.Conversation(), p.Block)
	}
}

// AddResult adds an event of the session's transcripts, which may be of another execution,
// if it has a call's result.
func (c *Calls) AddResult(ev event.Event) {
	if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Type == event.BlockToolResult {
		c.Add(ev)
	}
}

// Waited marks calls as done that waited for a person's answer when their agent was
// stopped: they did nothing.
func (c *Calls) Waited(toolUseIDs []string) {
	for _, id := range toolUseIDs {
		if k := c.byID[id]; k != nil {
			k.done, k.Input = true, nil
		}
	}
}

// AddPersisted adds what the agent's transcripts have.
func (c *Calls) AddPersisted(s reducer.State) {
	c.blocks(event.Main, s.Blocks)
	for _, sub := range s.Subagents {
		c.blocks(sub.ToolUseID, sub.Blocks)
	}
}

func (c *Calls) blocks(conversation string, blocks []event.Block) {
	for _, b := range blocks {
		if k := c.byID[b.ID]; k == nil || !k.earlier {
			c.block(conversation, b)
		}
	}
}

func (c *Calls) block(conversation string, b event.Block) {
	switch b.Type {
	case event.BlockToolUse:
		c.use(conversation, b)
	case event.BlockToolResult:
		if k := c.byID[b.ToolUseID]; k != nil && Unknown(b) {
			k.marked = true
		} else if k != nil {
			k.done, k.Input = true, nil
		}
	}
}

// use adds a part of a call.
func (c *Calls) use(conversation string, b event.Block) {
	k, isLost := c.byID[b.ID], reducer.Lost(b)
	switch {
	case k == nil:
		k = &known{Call: Call{ConversationID: conversation, ToolUseID: b.ID}, earlier: b.Status == ""}
		c.order = append(c.order, k)
	case (k.lost || k.earlier) && !isLost && b.Status != "" && b.Status != event.StatusError:
		*k = known{Call: k.Call} // another call with its id
	}
	if c.byID == nil {
		c.byID = map[string]*known{}
	}
	if b.ToolUseID != "" {
		k.ToolUseID = b.ToolUseID
	}
	c.byID[b.ID], c.byID[k.ToolUseID] = k, k
	k.take(b)
}

// take updates the call from a block.
func (k *known) take(b event.Block) {
	if b.ToolName != "" {
		k.ToolName = b.ToolName
	}
	if b.Input != nil && !k.done {
		k.Input = b.Input
	}
	k.lost = reducer.Lost(b)
	k.begun = k.begun || !k.lost && (b.Status == event.StatusComplete || b.Execution == event.ExecutionRunning)
	k.succeeded = k.succeeded || b.Execution == event.ExecutionSuccess
}

// Unknown returns the calls whose effect is unknown, in the order in which they started. It
// must be called after their agent has exited.
func (c *Calls) Unknown() (calls []Call) {
	for _, k := range c.order {
		if k.unknown() {
			calls = append(calls, k.Call)
		}
	}
	return calls
}

func (k *known) unknown() bool { return k.begun && !k.done && !k.succeeded }

// Marks returns the events that mark those calls in the conversation that are not marked
// yet.
func (c *Calls) Marks(at time.Time) (marks []event.Event) {
	failed := true
	for _, k := range c.order {
		if !k.unknown() || k.marked {
			continue
		}
		ev := event.FromServer(event.BlockUpsert{Block: event.Block{
			ID: fmt.Sprintf("sojourn-%s-unknown-%s", c.ExecutionID, k.ToolUseID), Type: event.BlockToolResult, Status: event.StatusComplete,
			Source: event.SourceServer, ToolUseID: k.ToolUseID, Output: said, IsError: &failed,
			Metadata: map[string]json.RawMessage{"effect": json.RawMessage(`"unknown"`)},
		}}, at)
		ev.Context.ConversationID = k.ConversationID
		marks = append(marks, ev)
	}
	return marks
}

// said is the output of a call whose effect is unknown.
var said = json.RawMessage(`"The effect of this call is unknown: it had begun when its agent was lost, and has no result."`)

// Untold returns those calls that no message to the agent in its transcripts names.
func Untold(calls []Call, persisted reducer.State) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool {
		return slices.ContainsFunc(persisted.Blocks, func(b event.Block) bool {
			return b.Type == event.BlockUserMessage && names(b, c)
		})
	})
}

// Judge returns the consequence of calls by rules: the strictest verdict; "" for no calls.
// Decisions may have the answer to the question about them: a denial ends the turn, and an
// allowance of all of them is asked for once.
func Judge(calls []Call, rules permission.EffectRules, decisions []permission.Decision) (then permission.OnLoss) {
	for _, c := range calls {
		then = then.Over(rules.Then(c.ToolName, c.Input))
	}
	for _, d := range decisions {
		switch {
		case !IsQuestion(d.Request):
		case !d.Allow:
			return permission.LossFail
		case then == permission.LossAsk && !slices.ContainsFunc(calls, func(c Call) bool { return !bytes.Contains(d.Input, []byte(c.mark())) }):
			then = permission.LossContinue
		}
	}
	return then
}

// maxKept bounds the stored input of a call, in bytes.
const maxKept = 16 << 10

// Shorten returns calls without inputs that are too large to store.
func Shorten(calls []Call) []Call {
	calls = slices.Clone(calls)
	for i, c := range calls {
		if len(c.Input) > maxKept {
			text, _ := json.Marshal(c.input()) // texts can be encoded
			calls[i].Input = text
		}
	}
	return calls
}
