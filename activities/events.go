package activities

import (
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
)

// fromServer returns a server event in the main conversation.
func fromServer(p event.Payload) event.Event {
	return event.FromServer(p, time.Now().UTC())
}

// runtime returns the unified status of a session without a sandbox.
func runtime(loaded bool) event.Status {
	return event.Status{Runtime: &event.Runtime{IsLoaded: loaded}}
}

// unified returns the status of a session with a sandbox.
func unified(env event.Environment) event.Status {
	return event.Status{State: env.Status, Runtime: &event.Runtime{IsLoaded: true, Sandbox: &env}}
}

func lostEnvironment(sb session.Sandbox) event.Environment {
	env := sb.Environment("terminated")
	env.Reason, env.Message = "unhealthy", "its host is lost"
	return env
}

// serverEntries returns those events that are part of the conversation, as entries for the
// archive, and the last block after them.
func serverEntries(key string, events []event.Event, anchor string) ([]archive.ServerEntry, string) {
	var entries []archive.ServerEntry
	for _, ev := range events {
		block, belongs := loss.BlockOf(ev)
		if !belongs {
			continue
		}
		entries = append(entries, archive.ServerEntry{
			ID: fmt.Sprintf("%s-%d", key, len(entries)), Anchor: archive.Anchor{ConversationID: event.Main, AfterBlockID: anchor}, Event: ev,
		})
		if _, ends := ev.Payload.(event.SubagentCompleted); !ends { // the block of one that ends is an earlier one
			anchor = block
		}
	}
	return entries, anchor
}

// serverEntriesOf returns placed server events as entries for the archive.
func serverEntriesOf(placed []loss.Placed) (entries []archive.ServerEntry) {
	for _, p := range placed {
		entries = append(entries, archive.ServerEntry{
			ID:     fmt.Sprintf("s%d", p.Event.Context.Seq),
			Anchor: archive.Anchor{ConversationID: p.ConversationID, AfterBlockID: p.AfterBlockID}, Event: p.Event,
		})
	}
	return entries
}
