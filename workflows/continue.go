package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

const (
	// continueAt is the history length at which a run makes way for the next even
	// if the server does not ask for it yet: well under its warning at 10 240.
	continueAt = 8000
	// makeWayBytes is the history size at which a run makes way in the middle of a
	// turn: the server's own suggestion. It ends the workflow at 50 MB; what comes
	// while the run makes way has room.
	makeWayBytes = 4 << 20
)

// mayContinue reports whether this run may make way for the next: a child
// reports to the run that started it; a handler answers for its own run; a wish
// to close or to evict is not carried.
func (r *run) mayContinue() bool {
	if !r.begun || len(r.st.Children) > 0 || !workflow.AllHandlersFinished(r.ctx) || r.responding > 0 {
		return false
	}
	return r.closing == "" && !r.cancelled() && !r.evicting
}

// continueDue reports whether this run should end at this turn's edge, and may.
func (r *run) continueDue() bool {
	if r.cur != nil || !r.outboxEmpty() || !r.mayContinue() {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > continueAt
}

// continueAsNew ends this run and carries its state into the next. Nothing in
// it blocks, so no message can come in between. It returns nil, and the run
// continues, when a signal that came with it has to be dealt with here.
func (r *run) continueAsNew() error {
	r.drain(r.ctx)
	if !r.continueDue() {
		return nil
	}
	return r.nextRun()
}

func (r *run) nextRun() error {
	in := r.in
	in.Version, in.Carried = session.StateVersion, r.st
	return workflow.NewContinueAsNewError(r.ctx, session.WorkflowType, in)
}

// errMakeWay ends the wait for a turn, and not the turn.
var errMakeWay = errors.New("the run makes way for the next one")

// makeWayDue reports whether this run should end in the middle of its turn, and
// may: messages that are sent meanwhile fill its history.
func (r *run) makeWayDue() bool {
	info := workflow.GetInfo(r.ctx)
	if info.GetCurrentHistorySize() <= makeWayBytes && info.GetCurrentHistoryLength() <= continueAt {
		return false
	}
	return r.cur.live && r.mayContinue()
}

// awaitTurn waits for RunTurn, or until the run has to make way.
func (r *run) awaitTurn(ctx workflow.Context, done workflow.Future, out *contract.RunTurnOutput) error {
	if err := workflow.Await(r.ctx, func() bool { return done.IsReady() || r.makeWayDue() }); err != nil {
		return err
	}
	if !done.IsReady() {
		return errMakeWay
	}
	return done.Get(ctx, out)
}

// makeWay ends this run in the middle of its turn and carries the turn with the
// state. The attempt at RunTurn is abandoned, but not its agent: the next run's
// attempt attaches to it, as after a worker's death. Nothing in it blocks.
func (r *run) makeWay() error {
	r.drain(r.ctx)
	cur := r.cur
	r.st.UnderWay = &session.UnderWay{
		Queued: cur.queued, AfterSeq: r.began(cur.queued, r.st.LastSeq), Anchor: r.st.LastBlockID,
		Lost: cur.lost, Interrupted: cur.interrupted, Reason: cur.reason,
	}
	if run := r.running; run != nil && run.MessageID == cur.queued.Message.ID {
		r.st.UnderWay.Anchor = run.Anchor
	}
	if r.st.MinTurn == 0 {
		// The attempts of the next run come after those of this one.
		r.st.MinTurn = r.nextTurn()
	}
	for _, n := range r.outbox {
		carried := session.Notice{Key: n.key, Events: n.events}
		if o := n.options; o != nil {
			carried.Model, carried.Permission = o.Model, o.Permission
		}
		r.st.Notices = append(r.st.Notices, carried)
	}
	return r.nextRun()
}

// unpack restores the turn and the notices that the run before was in the middle
// of.
func (r *run) unpack() {
	for _, n := range r.st.Notices {
		carried := &notice{key: n.Key, events: n.Events}
		if o := (contract.Options{Model: n.Model, Permission: n.Permission}); o != (contract.Options{}) {
			carried.options = &o
		}
		r.outbox = append(r.outbox, carried)
	}
	if u := r.st.UnderWay; u != nil {
		r.cur = &turn{queued: u.Queued, asked: true, lost: u.Lost, interrupted: u.Interrupted, reason: u.Reason}
		if u.Lost != nil {
			r.cur.hosts, r.cur.after = u.Lost.Times, u.Lost.AfterSeq
		}
		r.running = &contract.Running{ExecutionID: u.ExecutionID, MessageID: u.Message.ID, AfterSeq: u.AfterSeq, Anchor: u.Anchor}
	}
	r.st.Notices, r.st.UnderWay = nil, nil
}

// continueTurn continues the turn that the run before left at work.
func (r *run) continueTurn() error {
	if cur := r.cur; cur.interrupted {
		workflow.Go(r.ctx, func(ctx workflow.Context) { r.pressInterrupt(ctx, cur) })
	}
	return r.runTurn()
}
