package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// continueAt is the history length at which a run makes way for the next even
// if the server does not ask for it yet: well under its warning at 10 240.
const continueAt = 8000

// continueDue says whether this run should end at this turn's edge. A child
// reports to the run that started it, so with children it waits.
func (r *run) continueDue() bool {
	if !r.begun || r.cur != nil || len(r.st.Children) > 0 || !r.settled() {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > continueAt
}

// continueAsNew ends this run and carries its state into the next.
func (r *run) continueAsNew() error {
	// 1. Let what is being handled come to its end.
	if err := workflow.Await(r.ctx, func() bool { return workflow.AllHandlersFinished(r.ctx) }); err != nil {
		return err
	}
	// 2. Take every signal that was delivered; what it says is in the state.
	r.drain(r.ctx)
	// 3. What the signals made us say must be written by this run.
	if err := workflow.Await(r.ctx, r.settled); err != nil {
		return err
	}
	// 4. Carry the state. No message can have come in between: nothing above
	// blocks once handlers are done and the outbox is empty.
	in := r.in
	in.Carried = r.st
	return workflow.NewContinueAsNewError(r.ctx, session.WorkflowType, in)
}
