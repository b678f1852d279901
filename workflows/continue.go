package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

const (
	// continueAt is the history length at which a run makes way for the next one, even
	// without the server's suggestion: well under its warning at 10 240.
	continueAt = 8000
	// makeWayBytes is the history size at which a run makes way in the middle of a turn:
	// the server's own suggestion. It ends the workflow at 50 MB, which leaves room for
	// what arrives meanwhile.
	makeWayBytes = 4 << 20
)

// overlong reports whether the next run should take over. The server's suggestion, and that
// of another build of the worker, apply between turns; a closing session ends anyway.
func (r *run) overlong() bool {
	if !r.begun || r.closing != "" || r.cancelled() {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	return info.GetCurrentHistoryLength() > continueAt || info.GetCurrentHistorySize() > makeWayBytes ||
		r.cur == nil && (info.GetContinueAsNewSuggested() || info.GetTargetWorkerDeploymentVersionChanged())
}

// renewing reports whether the run makes way as soon as possible. From then on everything
// slow is left to the next run, and every waiting handler returns.
func (r *run) renewing() bool {
	return r.overlong() && (r.atEdge || r.cur != nil && (r.cur.live || r.cur.parked))
}

// mayContinue reports whether nothing is running that this run has to finish: a handler
// answers for its own run, and requests to other workflows may be dropped with the run.
func (r *run) mayContinue() bool {
	return r.renewing() && r.busy == 0 && workflow.AllHandlersFinished(r.ctx)
}

// continueAsNew ends this run between two turns. It returns nil, and the run continues,
// when the session has to close or when this run has to handle a signal first.
func (r *run) continueAsNew() error {
	r.atEdge = true
	defer func() { r.atEdge = false }()
	if err := workflow.Await(r.ctx, func() bool { return r.mayContinue() || !r.overlong() }); err != nil {
		return err
	}
	if r.drain(r.ctx); r.mayContinue() {
		return r.nextRun()
	}
	return nil
}

// errMakeWay ends the wait for a turn, but not the turn.
var errMakeWay = errors.New("the run makes way for the next one")

// awaitTurn waits for RunTurn, or until the run has to make way in the middle of it. Then
// it abandons the attempt at RunTurn, but not its agent: the next run's attempt attaches to
// it, as after a worker's death.
func (r *run) awaitTurn(ctx workflow.Context, done workflow.Future, out *contract.RunTurnOutput) error {
	for !done.IsReady() {
		if err := workflow.Await(r.ctx, func() bool { return done.IsReady() || r.mayContinue() }); err != nil {
			return err
		}
		if done.IsReady() {
			break
		}
		if r.drain(r.ctx); r.mayContinue() {
			r.carryTurn()
			return errMakeWay
		}
	}
	return done.Get(ctx, out)
}

func (r *run) carryTurn() {
	cur := r.cur
	r.st.UnderWay = &session.UnderWay{
		Queued: cur.queued, AfterSeq: cur.after, Anchor: cur.anchor,
		Lost: cur.lost, Interrupted: cur.interrupted, Reason: cur.reason, Waiting: cur.waiting,
	}
	if r.st.MinTurn == 0 {
		// The next run's attempts need higher fences than this one's.
		r.st.MinTurn = r.nextTurn()
	}
}

// nextRun carries the state into the next run. Nothing blocks between the decision and its
// return, so no message can arrive in between.
func (r *run) nextRun() error {
	for _, n := range r.outbox {
		carried := session.Notice{Key: n.key, Events: n.events}
		if o := n.options; o != nil {
			carried.Model, carried.Permission = o.Model, o.Permission
		}
		r.st.Notices = append(r.st.Notices, carried)
	}
	r.st.EpochUnknown = r.epochUnknown
	in := r.in
	in.Version, in.Carried = session.StateVersion, r.st
	upgrade := workflow.ContinueAsNewErrorOptions{InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade}
	return workflow.NewContinueAsNewErrorWithOptions(r.ctx, upgrade, session.WorkflowType, in)
}

// unpack restores what the previous run was in the middle of.
func (r *run) unpack() {
	for _, n := range r.st.Notices {
		carried := &notice{key: n.Key, events: n.Events}
		if o := (contract.Options{Model: n.Model, Permission: n.Permission}); o != (contract.Options{}) {
			carried.options = &o
		}
		r.outbox = append(r.outbox, carried)
	}
	if u := r.st.UnderWay; u != nil {
		r.cur = &turn{queued: u.Queued, after: u.AfterSeq, anchor: u.Anchor, asked: r.st.Sandbox != nil, lost: u.Lost, interrupted: u.Interrupted, reason: u.Reason, waiting: u.Waiting}
		if u.Lost != nil {
			r.cur.hosts = u.Lost.Times - u.Lost.Parks
		}
		r.running = &contract.Running{ExecutionID: u.ExecutionID, MessageID: u.Message.ID, AfterSeq: u.AfterSeq, Anchor: u.Anchor}
	}
	answers := r.st.Answers
	r.epochUnknown = r.st.EpochUnknown
	r.st.Notices, r.st.UnderWay, r.st.Answers, r.st.EpochUnknown = nil, nil, nil, false
	for _, a := range answers {
		r.respondLater(a)
	}
	r.unpackChildren()
}

// continueTurn continues the turn that the previous run left running.
func (r *run) continueTurn() error {
	if cur := r.cur; cur.interrupted {
		workflow.Go(r.ctx, func(ctx workflow.Context) { r.pressInterrupt(ctx, cur) })
	}
	return r.runTurn()
}
