package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/reducer/ticks"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/details"
	"github.com/sojourn-run/sojourn/workflows/index"
)

func (r *run) status() session.Status {
	switch {
	case r.cur != nil && len(r.cur.waiting) > 0:
		return session.StatusWaiting
	case r.cur != nil:
		return session.StatusRunning
	case r.pausedBy() != "":
		return session.StatusPaused
	default:
		return session.StatusIdle
	}
}

// publish shows the state to operators: the current details cost nothing in history, the
// search attributes one event when they changed.
func (r *run) publish() { r.publishAs(r.status()) }

func (r *run) publishAs(status session.Status) {
	workflow.SetCurrentDetails(r.ctx, r.details())
	now := index.Of(r.st, status, r.pausedBy())
	if updates := index.Changes(r.published, now, r.in); len(updates) > 0 {
		if err := workflow.UpsertTypedSearchAttributes(r.ctx, updates...); err != nil {
			workflow.GetLogger(r.ctx).Error("search attributes could not be set", "error", err)
		}
	}
	r.published = now
}

func (r *run) listenQueries() error {
	return errors.Join(
		workflow.SetQueryHandler(r.ctx, session.QuerySnapshot, func() (session.Snapshot, error) { return r.snapshot(), nil }),
		workflow.SetQueryHandler(r.ctx, session.QueryInspect, func() (session.Inspection, error) { return r.inspect(), nil }),
		workflow.SetQueryHandler(r.ctx, session.QueryFinalState, r.finalState),
		workflow.SetQueryHandler(r.ctx, session.QueryResult, r.result),
		workflow.SetQueryHandler(r.ctx, session.QueryReceipt, r.receipt),
	)
}

func (r *run) snapshot() session.Snapshot {
	s := session.NewSnapshot(r.in, r.st, workflow.Now(r.ctx))
	if s.Status = r.status(); r.closing != "" {
		s.Status = session.StatusClosed
	}
	return s
}

func (r *run) inspect() session.Inspection {
	i := session.Inspection{
		Snapshot: r.snapshot(), Phase: r.phase(), WaitsFor: cmp.Or(r.waitingFor, r.pausedBy()), Options: r.options(), CreatedAt: r.in.CreatedAt,
		LastBlock: r.st.LastBlock, LastTools: append([]ticks.Tool{}, r.st.LastTools...), LastOutcome: r.st.Outcome, Pending: []string{}, Failure: r.st.Failure, ArchiveBehind: r.st.ArchiveBehind,
		Background: r.st.Background, Parts: r.st.Parts, Epoch: r.st.Epoch, Restarts: r.st.Restarts, HistoryLength: workflow.GetInfo(r.ctx).GetCurrentHistoryLength(),
	}
	if r.cur != nil {
		i.CurrentExecution = r.cur.queued.ExecutionID
		i.Pending = append(i.Pending, r.cur.waiting...)
		if r.cur.parked {
			i.Parked = r.cur.lost.Parked
		}
	}
	if n := len(r.st.Results); n > 0 && r.st.Results[n-1].Result != nil {
		last := r.st.Results[n-1].Result
		i.LastOutput, i.LastOutputTruncated = last.Response, last.Truncated
	}
	return i
}

func (r *run) phase() string {
	switch {
	case r.closing != "":
		return "closing"
	case !r.begun:
		return "beginning"
	case r.pausedBy() != "":
		return "paused"
	case r.cur == nil && r.due():
		return "waiting for a sandbox" // the one before may be ending
	case r.cur == nil:
		return "idle"
	case r.cur.live && r.cur.interrupted:
		return "interrupting"
	case r.cur.parked:
		return "parked"
	case len(r.cur.waiting) > 0:
		return "waiting"
	case r.cur.live:
		return "turn"
	}
	return "waiting for a sandbox"
}

// result returns the result of one of the last executions, by execution or message id; ""
// is the last one.
func (r *run) result(id string) (session.Result, error) {
	if rec, err := r.receipt(id); err == nil { // its execution never ran if the message was folded into another
		id = rec.MessageID
	}
	for _, res := range slices.Backward(r.st.Results) {
		if id == "" || res.ExecutionID == id || res.MessageID == id {
			return res, nil
		}
	}
	if r.hasToRun(id) {
		return session.Result{}, session.ToTemporal(fmt.Errorf("execution %q: %w", id, session.ErrBusy))
	}
	return session.Result{}, session.ToTemporal(&session.NoMessageError{SessionID: r.in.SessionID, ID: id})
}

// receipt returns the receipt of an execution, by its id or its message's.
func (r *run) receipt(id string) (session.Receipt, error) {
	for _, rec := range slices.Backward(r.st.Receipts) {
		if rec.ExecutionID == id || rec.MessageID == id {
			return rec, nil
		}
	}
	return session.Receipt{}, session.ToTemporal(&session.NoMessageError{SessionID: r.in.SessionID, ID: id})
}

// hasToRun reports whether an execution runs or waits, by execution or message id.
func (r *run) hasToRun(id string) bool {
	is := func(q session.Queued) bool { return q.ExecutionID == id || q.Message.ID == id }
	return r.cur != nil && is(r.cur.queued) || slices.ContainsFunc(r.st.Queue, is)
}

// details returns the session in Markdown, for the Web UI.
func (r *run) details() string {
	i, now := r.inspect(), ""
	if r.cur != nil {
		now = titleOf(r.cur.queued.Message.Text)
	}
	return details.Markdown(i, now)
}

// waitFor shows what the run waits for, until done is called. It costs nothing in history.
func (r *run) waitFor(what string) (done func()) {
	show := func(what string) {
		r.waitingFor = what
		workflow.SetCurrentDetails(r.ctx, r.details())
	}
	show(what)
	return func() { show("") }
}

// finalState returns what remains of a run that is ended from outside.
func (r *run) finalState() (contract.FinalState, error) {
	st := contract.FinalState{
		Agent: r.agent(), Record: r.record(), Sandbox: r.st.Sandbox, Turn: r.nextTurn() + 1, Unlisted: r.in.Unlisted(), Unarchived: r.st.Unarchived,
	}
	if r.cur != nil {
		m := pendingMessage(r.cur.queued)
		st.Running, st.Lost = &m, r.cur.lost
		if run := r.running; run != nil && run.MessageID == m.MessageID {
			st.Since = run
		}
	}
	for _, q := range r.st.Queue {
		st.Waiting = append(st.Waiting, pendingMessage(q))
	}
	for _, c := range r.st.Children {
		st.Children = append(st.Children, c.SessionID)
	}
	return st, nil
}

func pendingMessage(q session.Queued) contract.PendingMessage {
	return contract.PendingMessage{ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Title: titleOf(q.Message.Text)}
}
