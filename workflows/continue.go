package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// continueAt is the history length at which a run makes way for the next even
// if the server does not ask for it yet: well under its warning at 10 240.
const continueAt = 8000

// continueDue says whether this run should end at this turn's edge, and may: a
// child reports to the run that started it; a handler answers for its own run;
// a wish to close or to evict, and what waits to be written, is not carried.
func (r *run) continueDue() bool {
	if !r.begun || r.cur != nil || len(r.st.Children) > 0 || !workflow.AllHandlersFinished(r.ctx) {
		return false
	}
	if r.closing != "" || r.cancelled() || r.evicting || !r.settled() {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > continueAt
}

// continueAsNew ends this run and carries its state into the next. Nothing in
// it blocks, so no message can come in between. It gives nil, and the run goes
// on, when a signal that came with it has to be dealt with here.
func (r *run) continueAsNew() error {
	r.drain(r.ctx)
	if !r.continueDue() {
		return nil
	}
	in := r.in
	in.Version, in.Carried = session.StateVersion, r.st
	return workflow.NewContinueAsNewError(r.ctx, session.WorkflowType, in)
}
