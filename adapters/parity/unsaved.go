package parity

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Unsaved gives the events that make the live side say what the transcripts
// say, after the agent has died and before the session goes on. An agent writes
// and speaks independently, so a death takes from both:
//
//   - What was said and is on no disk is marked as lost. What was marked so and
//     is on disk after all is told anew.
//   - What stands there otherwise is told anew: a call whose result was lost or,
//     the other way round, was written and not said.
//   - What is on disk behind all that was said is told.
//
// The live side may be the last turn alone. Messages of users are left alone:
// whoever sent them sends them again. So are blocks that Sojourn added, and
// threads that the restored side does not have.
func Unsaved(live, restored reducer.State, at time.Time) []event.Event {
	s := settling{restored: restored, at: at}
	s.thread(event.Main, live.Blocks, restored.Blocks)
	for _, sub := range live.Subagents {
		if saved := s.subagent(sub.ToolUseID); saved != nil {
			s.thread(sub.ToolUseID, sub.Blocks, saved.Blocks)
		}
	}
	return s.out
}

// settling collects events.
type settling struct {
	restored reducer.State
	at       time.Time
	out      []event.Event
}

func (s *settling) tell(conversation string, source event.Source, p event.Payload) {
	s.out = append(s.out, event.Event{Payload: p, Context: event.Context{
		ConversationID: conversation, Source: source, Timestamp: s.at,
	}})
}

func (s *settling) thread(conversation string, live, restored []event.Block) {
	saved := make(map[string]*event.Block, len(restored))
	for i := range restored {
		saved[restored[i].ID] = &restored[i]
	}
	said := make(map[string]bool, len(live))
	for _, b := range live {
		said[b.ID] = true
		switch {
		case b.Type == event.BlockUserMessage || b.Source == event.SourceServer:
		case string(b.Metadata["lost"]) == "true":
			if saved[b.ID] != nil && b.Type != event.BlockSubagent {
				s.tell(conversation, event.SourceRunner, event.BlockUpsert{Block: *saved[b.ID]})
			}
		case saved[b.ID] == nil:
			s.tell(conversation, event.SourceServer, event.BlockUpsert{Block: event.Block{
				ID: b.ID, Type: b.Type, Status: event.StatusError,
				Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
			}})
		case b.Type == event.BlockSubagent:
			if saved[b.ID].Execution != b.Execution {
				s.ended(conversation, *saved[b.ID])
			}
		case !same(b, *saved[b.ID]):
			s.tell(conversation, event.SourceRunner, event.BlockUpsert{Block: *saved[b.ID]})
		}
	}
	s.rest(conversation, restored, said)
}

// same says whether a block stands on disk as it was said.
func same(live, saved event.Block) bool {
	a, aerr := json.Marshal(timeless(live))
	b, berr := json.Marshal(timeless(saved))
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// ended tells how a subagent ended.
func (s *settling) ended(conversation string, b event.Block) {
	done := event.SubagentCompleted{ToolUseID: b.ToolUseID, Status: event.SubagentFailed}
	if b.Execution == event.ExecutionSuccess {
		done.Status = event.SubagentCompletedOK
	}
	if sub := s.subagent(b.ToolUseID); sub != nil {
		done.AgentID, done.Output = sub.AgentID, sub.Output
	}
	if done.Output == nil {
		done.Output = new(string) // what was said of it is taken back
	}
	s.tell(conversation, event.SourceRunner, done)
}

// rest tells what stands behind everything that was said. What stands between
// is what the agent never says.
func (s *settling) rest(conversation string, restored []event.Block, said map[string]bool) {
	last := len(restored)
	for i := len(restored) - 1; i >= 0 && last == len(restored); i-- {
		if said[restored[i].ID] {
			last = i
		}
	}
	for _, b := range restored[min(last+1, len(restored)):] {
		switch {
		case b.Type == event.BlockUserMessage && conversation == event.Main:
		case b.Type == event.BlockSubagent:
			s.subagentOnDisk(conversation, b)
		default:
			s.tell(conversation, event.SourceRunner, event.BlockUpsert{Block: b})
		}
	}
}

// subagentOnDisk tells a whole subagent that nobody has heard of.
func (s *settling) subagentOnDisk(conversation string, b event.Block) {
	spawned := event.SubagentSpawned{ToolUseID: b.ToolUseID, SubagentType: b.Name, Description: b.Description}
	sub := s.subagent(b.ToolUseID)
	if sub != nil {
		spawned.AgentID, spawned.Prompt = sub.AgentID, sub.Prompt
	}
	s.tell(conversation, event.SourceRunner, spawned)
	if sub != nil {
		for _, inner := range sub.Blocks {
			if inner.Type == event.BlockSubagent {
				s.subagentOnDisk(b.ToolUseID, inner)
				continue
			}
			s.tell(b.ToolUseID, event.SourceRunner, event.BlockUpsert{Block: inner})
		}
	}
	if b.Execution != event.ExecutionRunning {
		s.ended(conversation, b)
	}
}

func (s *settling) subagent(toolUseID string) *reducer.Subagent {
	for i := range s.restored.Subagents {
		if s.restored.Subagents[i].ToolUseID == toolUseID {
			return &s.restored.Subagents[i]
		}
	}
	return nil
}
