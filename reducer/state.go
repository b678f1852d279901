package reducer

import (
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/internal/normal"
)

// State is a conversation: the session's own blocks, and one thread for each
// subagent in the order in which they were first seen.
//
// A State is immutable: the folds of this package never write to one that they
// received or returned, and neither may a caller. The zero value is the empty
// conversation.
type State struct {
	// Blocks is the conversation "main". A subagent shows here only as its
	// reference block.
	Blocks    []event.Block `json:"blocks"`
	Subagents []Subagent    `json:"subagents"`
}

// Subagent is the thread of one subagent.
type Subagent struct {
	// ToolUseID is the tool use that started it, and the id of its
	// conversation. Unique within a state.
	ToolUseID string `json:"toolUseId"`
	// AgentID is the agent's own name for it, when known.
	AgentID string `json:"agentId,omitempty"`
	// ChildSessionID is set when the subagent is itself a Sojourn session, whose
	// events are in that session's stream; empty for a thread that the agent runs
	// inside itself.
	ChildSessionID string `json:"childSessionId,omitempty"`
	// Status is running, success or error.
	Status event.Execution `json:"status"`
	Prompt string          `json:"prompt"`
	Output *string         `json:"output,omitempty"`
	// DurationMS is the agent's own figure, in milliseconds.
	DurationMS *int64        `json:"durationMs,omitempty"`
	Blocks     []event.Block `json:"blocks"`
}

// Native reports whether the agent runs the subagent inside itself, as opposed to
// a Sojourn child session.
func (s Subagent) Native() bool { return s.ChildSessionID == "" }

// Same reports whether both are one state, not merely equal ones: it compares the
// slices' addresses, in constant time. A fold that changes nothing returns the
// same state, so a reader can skip its redraw.
func (s State) Same(t State) bool {
	return sameSlice(s.Blocks, t.Blocks) && sameSlice(s.Subagents, t.Subagents)
}

// Slices of one length at one address are equal, because no fold writes to a
// slice that it has returned.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Conversation returns the blocks of one conversation: main, or a subagent by its
// toolUseId or, failing that, its agentId. Nil if there is none.
func (s State) Conversation(id string) []event.Block {
	if id == event.Main {
		return s.Blocks
	}
	sub, _ := s.Subagent(id, id)
	return sub.Blocks
}

// Subagent returns the subagent with toolUseID or, only if there is none, the one with
// agentID, and whether there is any. An empty id finds nothing.
func (s State) Subagent(toolUseID, agentID string) (Subagent, bool) {
	at := lookup(s.Subagents, toolUseID, agentID)
	if at < 0 {
		return Subagent{}, false
	}
	return s.Subagents[at], true
}

// MarshalJSON writes empty lists as [], never as null.
func (s State) MarshalJSON() ([]byte, error) {
	type fields State
	s.Blocks, s.Subagents = notNil(s.Blocks), notNil(s.Subagents)
	return normal.JSON(fields(s))
}

// MarshalJSON writes empty lists as [], never as null.
func (s Subagent) MarshalJSON() ([]byte, error) {
	type fields Subagent
	s.Blocks = notNil(s.Blocks)
	return normal.JSON(fields(s))
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// lookup finds a subagent by toolUseID and, only if none has it, by agentID; -1
// if there is none. An empty id finds nothing.
func lookup(subs []Subagent, toolUseID, agentID string) int {
	if toolUseID != "" {
		for i := range subs {
			if subs[i].ToolUseID == toolUseID {
				return i
			}
		}
	}
	if agentID != "" {
		for i := range subs {
			if subs[i].AgentID == agentID {
				return i
			}
		}
	}
	return -1
}
