package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// notice is what the workflow itself writes: events for the stream, or options for the live
// agent.
type notice struct {
	key     string
	events  []event.Event
	options *contract.Options
	done    bool
}

// firstRetry and lastRetry bound the wait before a control that no turn took is sent again.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// deliver empties the outbox, in order, until the run ends.
func (r *run) deliver(ctx workflow.Context) {
	for {
		if err := workflow.Await(ctx, func() bool { return len(r.outbox) > 0 && r.mayWrite() }); err != nil {
			return
		}
		n := r.outbox[0]
		r.writing = true
		err := r.write(ctx, n)
		r.writing = false
		if err != nil {
			workflow.GetLogger(ctx).Error("a notice could not be written", "key", n.key, "error", err)
		}
		n.done = true
		r.outbox = r.outbox[1:]
	}
}

// mayWrite is false before the run has its epoch, while a sandbox is being made, which takes
// a new one, and while the session's end is written: it is the stream's last event.
func (r *run) mayWrite() bool {
	return r.begun && !r.writing && (r.cur == nil || r.cur.live || r.cur.parked)
}

// alone waits until the workflow writes nothing, and keeps it from that until done is called:
// two that take an epoch would fence each other.
func (r *run) alone() (done func(), err error) {
	if err := workflow.Await(r.ctx, func() bool { return !r.writing }); err != nil {
		return nil, err
	}
	r.writing = true
	return func() { r.writing = false }, nil
}

// write sends the notice to the running turn, or appends it when none runs.
func (r *run) write(ctx workflow.Context, n *notice) error {
	cur := r.cur
	for wait := firstRetry; r.runs(cur); wait = min(2*wait, lastRetry) {
		out, err := r.control(ctx, contract.ControlInput{ID: n.key, Events: n.events, Options: n.options, Bounds: r.bounds()})
		if out.Handed || timeouts.IsPermanent(err) {
			return err
		}
		r.pause(ctx, cur, wait)
	}
	if len(n.events) == 0 {
		return nil
	}
	_, err := r.emit(ctx, contract.EmitInput{Key: n.key, Events: n.events, Anchor: r.st.LastBlockID}, func() bool { return false })
	return err
}

// runs reports whether a turn is the live one.
func (r *run) runs(t *turn) bool { return t != nil && r.cur == t && t.live }

// pause waits, at most until the turn is over.
func (r *run) pause(ctx workflow.Context, cur *turn, wait time.Duration) {
	if _, err := awaitAtMost(ctx, wait, func() bool { return !r.runs(cur) }); err != nil {
		workflow.GetLogger(ctx).Debug("pause ended early", "error", err)
	}
}

// control calls the live turn on its host.
func (r *run) control(ctx workflow.Context, in contract.ControlInput) (contract.ControlOutput, error) {
	var out contract.ControlOutput
	if r.cur == nil || r.st.Sandbox == nil {
		return out, nil
	}
	in.SessionID, in.ExecutionID = r.in.SessionID, r.cur.queued.ExecutionID
	actx := workflow.WithActivityOptions(ctx, timeouts.Control(r.st.Sandbox.Host))
	err := workflow.ExecuteActivity(actx, contract.ActivitySendControl, in).Get(actx, &out)
	if temporal.IsTimeoutError(err) {
		return contract.ControlOutput{Unknown: true}, nil
	}
	return out, err
}

// interrupt marks the running turn and sends the agent an interrupt; it reaches all
// children. It reports whether a turn of this session ran.
func (r *run) interrupt(reason string) bool {
	for _, c := range r.st.Children {
		r.interruptChild(c.SessionID)
	}
	if r.cur == nil {
		// A child's work counts as running before its turn starts, and while a limit holds it.
		return r.in.Parent != nil && (r.st.Turns == 0 || r.pausedBy() != "") && r.st.Queue.CancelNext(reason)
	}
	if !r.cur.interrupted {
		r.cur.interrupted, r.cur.reason = true, reason
		r.st.Aborted = true
		r.stopWaiting()
		cur := r.cur
		workflow.Go(r.ctx, func(ctx workflow.Context) { r.pressInterrupt(ctx, cur) })
	}
	return true
}

// pressInterrupt sends the interrupt until the turn took it or is over.
func (r *run) pressInterrupt(ctx workflow.Context, cur *turn) {
	if err := workflow.Await(ctx, func() bool { return r.cur != cur || cur.live }); err != nil {
		return
	}
	in := contract.ControlInput{
		ID:        fmt.Sprintf("interrupt-%s", cur.queued.ExecutionID),
		Interrupt: &contract.Interrupt{Reason: cur.reason},
	}
	for wait := firstRetry; r.runs(cur); wait = min(2*wait, lastRetry) {
		out, err := r.control(ctx, in)
		if err != nil {
			workflow.GetLogger(ctx).Error("an interrupt could not be handed over", "execution", cur.queued.ExecutionID, "error", err)
		}
		if out.Handed {
			return
		}
		r.pause(ctx, cur, wait)
	}
}
