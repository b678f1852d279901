package permission

import (
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// StillOpen returns the permission requests without an answer after ev, oldest first; open
// are those before it, and may be overwritten. The end of a turn ends its requests; a parked
// turn has not ended. The events may be of several sessions, which Context.SessionID
// distinguishes.
func StillOpen(open []event.Event, ev event.Event) []event.Event {
	of := ev.Context.SessionID
	switch p := ev.Payload.(type) {
	case event.PermissionRequested:
		return append(open, ev)
	case event.PermissionResolved:
		return slices.DeleteFunc(open, func(ask event.Event) bool {
			return ask.Context.SessionID == of && ask.Payload.(event.PermissionRequested).RequestID == p.RequestID
		})
	case event.QueryCompleted:
		return ended(open, of, p.Query)
	case event.QueryFailed:
		return ended(open, of, p.Query)
	case event.QueryInterrupted:
		return ended(open, of, p.Query)
	}
	return open
}

// ended removes a session's requests, unless it is an execution that ended in the queue.
func ended(open []event.Event, session string, q event.Query) []event.Event {
	if q.Queued {
		return open
	}
	return slices.DeleteFunc(open, func(ask event.Event) bool { return ask.Context.SessionID == session })
}

// Withdrawn returns the events that end open requests, except those to keep, by id: the
// agent that made them has exited, and takes no answer.
func Withdrawn(open []event.Event, keep []string, at time.Time) (ends []event.Event) {
	for _, ask := range open {
		id := ask.Payload.(event.PermissionRequested).RequestID
		if slices.Contains(keep, id) {
			continue
		}
		end := event.FromServer(event.PermissionResolved{RequestID: id, Decision: "cancelled"}, at)
		end.Context.ConversationID = ask.Context.Conversation()
		ends = append(ends, end)
	}
	return ends
}
