package activities

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// waiting are the open permission requests of a turn that only a person can
// answer, and which of them the workflow knows.
type waiting struct {
	open []string
	// told is what the workflow was told last, or has from its own answer.
	told []string
	// tell is set when that is not known: an attempt before may have told it
	// something else.
	tell bool
}

func (w *waiting) add(id string) {
	if !slices.Contains(w.open, id) {
		w.open = append(slices.Clone(w.open), id)
	}
}

func (w *waiting) remove(id string) {
	w.open = slices.DeleteFunc(slices.Clone(w.open), func(have string) bool { return have == id })
}

// track keeps the open permission requests up to date with events that are not
// in the stream yet.
func (t *turn) track(events []event.Event) {
	for _, ev := range events {
		switch p := ev.Payload.(type) {
		case event.PermissionRequested:
			t.asked[p.RequestID] = p
			if !t.answersItself() {
				t.waits.add(p.RequestID)
			}
		case event.PermissionResolved:
			delete(t.asked, p.RequestID)
			t.waits.remove(p.RequestID)
		}
	}
}

// answersItself reports whether the standing policy answers every request.
func (t *turn) answersItself() bool {
	p := adapters.Permission(t.mark.Permission)
	return p == adapters.PermissionAllow || p == adapters.PermissionDeny
}

// tellPatience bounds one signal to the workflow: while Temporal is away the
// turn continues, and the signal is sent again with the next heartbeat.
const tellPatience = time.Second

// tellWaiting signals the workflow which requests wait for a person, if that has
// changed. It is called before a request's event is in the stream, so that no
// reader of it finds the session running.
func (t *turn) tellWaiting(ctx context.Context) {
	if !t.waits.tell && slices.Equal(t.waits.open, t.waits.told) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	at := activity.GetInfo(ctx).WorkflowExecution
	err := t.host.o.Temporal.SignalWorkflow(ctx, at.ID, at.RunID, session.SignalWaiting, session.Waiting{
		ExecutionID: t.in.ExecutionID, Requests: t.waits.open,
	})
	if err != nil {
		t.host.o.Log.Warn("signal the workflow what waits for a person", "session", t.in.Agent.SessionID, "error", err)
		return
	}
	t.waits.tell, t.waits.told = false, t.waits.open
}
