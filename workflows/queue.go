package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func (r *run) validateEditQueue(e session.QueueEdit) error {
	if err := cmp.Or(r.open(), e.Validate()); err != nil {
		return err
	}
	at := r.st.Queue.Find(e.MessageID)
	if at < 0 {
		return session.Invalid("messageId", fmt.Sprintf("%q does not wait", e.MessageID), "the id of a message that waits: the query snapshot has them")
	}
	if r.st.Queue[at].Offered {
		return session.Invalid("messageId", fmt.Sprintf("%q was handed to the running turn", e.MessageID), "a message that the agent does not have; an interrupt stops the turn")
	}
	if e.Message == nil {
		return nil
	}
	return r.st.Queue.Replace(at, *e.Message).Check()
}

func (r *run) editQueue(_ workflow.Context, e session.QueueEdit) (session.Snapshot, error) {
	at := r.st.Queue.Find(e.MessageID)
	switch {
	case e.Message != nil:
		r.st.Queue = r.st.Queue.Replace(at, *e.Message)
	case e.Place != nil:
		r.st.Queue = r.st.Queue.Move(at, *e.Place)
	default:
		var out session.Queued
		out, r.st.Queue = r.st.Queue.Take(at)
		r.endWaiting(session.Queue{out}, cancelled(e.Reason))
	}
	r.publish()
	return r.snapshot(), nil
}

// clearQueue cancels and returns all queued messages.
func (r *run) clearQueue(reason string) []session.Message {
	end := cancelled(reason)
	waited, rest := r.st.Queue.Clear(end.Reason)
	r.st.Queue = rest
	r.endWaiting(waited, end)
	return waited.Messages()
}

func cancelled(reason string) session.Result {
	return session.Result{Outcome: session.Interrupted, Reason: cmp.Or(reason, "cancelled before it ran")}
}

// failQueue fails all queued messages: the session closes.
func (r *run) failQueue() {
	waited := r.st.Queue
	r.st.Queue = nil
	r.endWaiting(waited, session.Result{
		Outcome: session.Failed, Error: &event.ErrorInfo{Message: "the session was closed before this message ran", Code: session.TypeClosed},
	})
}

// failSpent fails messages that were sent again before the run had the ids that an
// earlier incarnation had accepted.
func (r *run) failSpent(spent session.SpentIDs) {
	again, rest := r.st.Queue.Split(func(q session.Queued) bool { return spent.Has(q.Message.ID) })
	r.st.Queue = rest
	r.endWaiting(again, session.Result{
		Outcome: session.Failed, Error: &event.ErrorInfo{Message: "a message of this id was sent to the session before", Code: session.TypeInvalid, Field: "message.id"},
	})
}

// endWaiting ends messages that were in the queue, in results, stream and conversation:
// each has a receipt.
func (r *run) endWaiting(waited session.Queue, end session.Result) {
	if len(waited) == 0 {
		return
	}
	code, text := "cancelled", "taken out of the queue, "+end.Reason+": "
	if end.Outcome == session.Failed {
		code, text = "unanswered", end.Error.Message+": "
	}
	var events []event.Payload
	var texts []string
	for _, q := range waited {
		end.ExecutionID, end.MessageID = q.ExecutionID, q.Message.ID
		r.st.KeepResult(end)
		events = append(events, end.EndsQueued())
		texts = append(texts, fmt.Sprintf("%s (%s)", titleOf(q.Message.Text), q.Message.ID))
	}
	// Named after the first message: more may follow.
	id := fmt.Sprintf("sojourn-e%d-%s-%s", r.st.Epoch, waited[0].ExecutionID, code)
	r.notify(append(events, event.SystemBlock(id, code, text+strings.Join(texts, "; ")))...)
}
