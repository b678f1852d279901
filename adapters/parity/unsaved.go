package parity

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Unsaved gives the events that mark as lost what the agent has said but its
// transcripts do not hold. An agent writes its transcript some time after it
// has spoken, so a kill can take whole blocks with it; after one, and before
// the session goes on, these events make the live side honest again. Messages
// of users are left alone: whoever sent them sends them again. So are blocks
// that Sojourn added, and threads that the restored side does not have.
func Unsaved(live, restored reducer.State, at time.Time) []event.Event {
	out := unsaved(event.Main, live.Blocks, restored.Blocks, at)
	for _, sub := range live.Subagents {
		if saved := restored.Conversation(sub.ToolUseID); saved != nil {
			out = append(out, unsaved(sub.ToolUseID, sub.Blocks, saved, at)...)
		}
	}
	return out
}

func unsaved(conversation string, live, restored []event.Block, at time.Time) []event.Event {
	saved := make(map[string]bool, len(restored))
	for _, b := range restored {
		saved[b.ID] = true
	}
	var out []event.Event
	for _, b := range written(live, nil) {
		if saved[b.ID] || b.Type == event.BlockUserMessage {
			continue
		}
		out = append(out, event.Event{
			Payload: event.BlockUpsert{Block: event.Block{
				ID: b.ID, Type: b.Type, Status: event.StatusError,
				Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
			}},
			Context: event.Context{ConversationID: conversation, Source: event.SourceServer, Timestamp: at},
		})
	}
	return out
}
