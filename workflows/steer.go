package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

// A message of BusySteer waits in the queue like any other, and is offered to the running
// turn once. It leaves the queue when the end of an execution names it, so it survives
// whatever dies before. Messages are offered one after the other, and none behind one that
// the agent may not have: it is taken to have what was offered before a message that its
// transcripts have.

// steer offers a receipt's message to the running turn, if it is to be steered, and returns
// the receipt with the outcome.
func (r *run) steer(ctx workflow.Context, rec session.Receipt) session.Receipt {
	if at := r.st.Queue.Find(rec.MessageID); at < 0 || r.st.Queue[at].Message.WhenBusy != session.BusySteer {
		return rec
	}
	rec.Handling = session.HandlingQueued
	if r.offer(ctx, r.cur, rec.MessageID) {
		rec.Handling = session.HandlingHanded
	}
	for i := range r.st.Receipts {
		if r.st.Receipts[i].MessageID == rec.MessageID {
			r.st.Receipts[i].Handling = rec.Handling
		}
	}
	return rec
}

// offer offers a queued message to the running turn, and reports whether the turn took it.
func (r *run) offer(ctx workflow.Context, cur *turn, id string) bool {
	if !r.runs(cur) {
		return false
	}
	// The updates' coroutines don't continue in the order in which they began to wait.
	cur.offers = append(cur.offers, id)
	defer func() { cur.offers = slices.DeleteFunc(cur.offers, func(o string) bool { return o == id }) }()
	if err := workflow.Await(ctx, func() bool { return !r.runs(cur) || cur.offers[0] == id || r.renewing() }); err != nil {
		return false
	}
	at := r.st.Queue.Find(id)
	if at < 0 || !r.runs(cur) || cur.interrupted || cur.offers[0] != id || cur.unsure {
		return false
	}
	m := r.st.Queue[at].Message
	r.st.Queue = r.st.Queue.Offer(at)
	out, err := r.control(ctx, contract.ControlInput{ID: "steer-" + m.ID, Steer: &m})
	if err != nil || out.Unknown {
		cur.unsure = true
	} else if at = r.st.Queue.Find(id); at >= 0 && r.cur == cur {
		r.st.Queue[at].Offered = out.Handed
	}
	return out.Handed
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
