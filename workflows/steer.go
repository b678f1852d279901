package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

// A message of BusySteer waits in the queue like any other, and is offered to the running
// turn once. It leaves the queue when the end of an execution names it, so it survives
// whatever dies before.

// steer offers a receipt's message to the running turn, if it is to be steered, and returns
// the receipt with the outcome.
func (r *run) steer(ctx workflow.Context, rec session.Receipt) session.Receipt {
	at, cur := r.st.Queue.Find(rec.MessageID), r.cur
	if at < 0 || r.st.Queue[at].Message.WhenBusy != session.BusySteer {
		return rec
	}
	rec.Handling = session.HandlingQueued
	if r.runs(cur) && !cur.interrupted {
		m := r.st.Queue[at].Message
		r.st.Queue[at].Offered = true
		out, err := r.control(ctx, contract.ControlInput{ID: "steer-" + m.ID, Steer: &m})
		if out.Handed {
			rec.Handling = session.HandlingHanded
		} else if at = r.st.Queue.Find(m.ID); at >= 0 && r.cur == cur && err == nil && !out.Unknown {
			r.st.Queue[at].Offered = false
		}
	}
	for i := range r.st.Receipts {
		if r.st.Receipts[i].MessageID == rec.MessageID {
			r.st.Receipts[i].Handling = rec.Handling
		}
	}
	return rec
}

// fold ends the messages that an execution answered besides its own.
func (r *run) fold(res session.Result) {
	for _, id := range res.MessageIDs {
		if id == res.MessageID {
			continue
		}
		r.st.Queue = slices.DeleteFunc(r.st.Queue, func(q session.Queued) bool { return q.Message.ID == id })
		if _, known := r.known(id); !known { // a reset left it out
			r.st.Remember(session.Receipt{SessionID: r.in.SessionID, MessageID: id, ExecutionID: res.ExecutionID, AfterSeq: r.st.LastSeq})
		}
		end := res
		end.MessageID = id
		r.st.KeepResult(end)
	}
}

// takeBack has what the running turn was offered and did not take run next, or ends it if
// it was cancelled.
func (r *run) takeBack() {
	next, dropped := r.st.Queue.TakeBack()
	r.st.Queue = next
	for _, q := range dropped {
		r.endWaiting(session.Queue{q}, cancelled(q.Cancelled))
	}
}
