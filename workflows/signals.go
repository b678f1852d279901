package workflows

import (
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

type signal struct {
	name   string
	handle func(workflow.Context, *commonpb.Payload) error
}

func (r *run) signals() []signal {
	return []signal{
		{session.SignalMessage, r.onMessage}, {session.SignalQueue, r.onQueue},
		{session.SignalInterrupt, r.onInterrupt}, {session.SignalWaiting, r.onWaiting}, {session.SignalRespond, r.onRespond},
	}
}

// receive returns the coroutine that passes a signal's raw payloads to a handler: anyone
// may send anything, and no signal may fail a workflow task.
func (r *run) receive(s signal) func(workflow.Context) {
	return func(ctx workflow.Context) {
		ch := workflow.GetSignalChannel(ctx, s.name)
		for {
			// Not Receive: that takes a value before its coroutine runs, so that drain
			// can't see it and continue-as-new loses it.
			if err := workflow.Await(ctx, func() bool { return ch.Len() > 0 }); err != nil {
				return
			}
			var raw converter.RawValue
			if ch.ReceiveAsync(&raw) {
				r.take(ctx, s, raw)
			}
		}
	}
}

func (r *run) take(ctx workflow.Context, s signal, raw converter.RawValue) {
	if err := s.handle(ctx, raw.Payload()); err != nil {
		r.refuse(s.name, err)
	}
}

// drain handles the delivered but unread signals, before a run ends.
func (r *run) drain(ctx workflow.Context) {
	for _, s := range r.signals() {
		ch := workflow.GetSignalChannel(ctx, s.name)
		for {
			var raw converter.RawValue
			if !ch.ReceiveAsync(&raw) {
				break
			}
			r.take(ctx, s, raw)
		}
	}
}

// refuse records a signal that is not a message: a signal has no caller to answer.
func (r *run) refuse(name string, err error) {
	info := session.Refusal(err)
	info.Message = fmt.Sprintf("signal %s: %s", name, info.Message)
	r.notices++
	id := fmt.Sprintf("sojourn-signal-%s-%d", workflow.GetInfo(r.ctx).WorkflowExecution.RunID, r.notices)
	r.notify(event.Error{ErrorInfo: info}, event.ErrorBlock(id, info))
}

func (r *run) onMessage(ctx workflow.Context, p *commonpb.Payload) error {
	return r.signalled(ctx, p, false)
}

func (r *run) onQueue(ctx workflow.Context, p *commonpb.Payload) error {
	return r.signalled(ctx, p, true)
}

func (r *run) signalled(ctx workflow.Context, p *commonpb.Payload, hold bool) error {
	m, err := session.DecodeMessage(p)
	if err != nil {
		return err
	}
	if _, again, err := r.repeated(m); again {
		return err
	}
	if err := r.mayQueue(m); err != nil && m.ID != "" {
		return fmt.Errorf("message %s: %w", m.ID, err)
	} else if err != nil {
		return err
	}
	if m, err = withID(ctx, m); err != nil {
		return err
	}
	if hold {
		r.accept(m, true)
		return nil
	}
	if rec := r.acceptToRun(m); m.WhenBusy == session.BusySteer {
		r.busy++
		workflow.Go(r.ctx, func(ctx workflow.Context) {
			r.steer(ctx, rec)
			r.busy--
		})
	}
	return nil
}

func (r *run) onInterrupt(ctx workflow.Context, p *commonpb.Payload) error {
	req, err := session.DecodeRequest[session.InterruptRequest](session.SignalInterrupt, p)
	if err != nil {
		return err
	}
	if r.closing != "" && req.Message == nil {
		// Closing interrupts already.
		return nil
	}
	if err := r.validateInterrupt(req); err != nil {
		return err
	}
	_, err = r.interruptUpdate(ctx, req)
	return err
}

// onRespond answers a permission request; without an id, the open one. Later signals don't
// wait for it.
func (r *run) onRespond(_ workflow.Context, p *commonpb.Payload) error {
	req, err := session.DecodeRespond(p)
	if err != nil {
		return err
	}
	if req.RequestID == "" && r.cur != nil && len(r.cur.waiting) > 1 {
		return session.Invalid("requestId", fmt.Sprintf("is missing, and %d requests are open", len(r.cur.waiting)), "one of "+strings.Join(r.cur.waiting, ", "))
	}
	if req.RequestID == "" && r.cur != nil && len(r.cur.waiting) == 1 {
		req.RequestID = r.cur.waiting[0]
	}
	if err := r.validateRespond(req); err != nil {
		return err
	}
	r.respondLater(req)
	return nil
}

// respondLater answers a permission request of the turn, once that runs or is parked, for a
// sender who does not wait for the outcome.
func (r *run) respondLater(req session.RespondRequest) {
	r.busy++
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		err := workflow.Await(ctx, func() bool { return r.cur == nil || r.cur.live || r.cur.parked })
		if err == nil {
			err = r.respond(ctx, req)
		}
		if err != nil {
			r.refuse(session.SignalRespond, session.FromTemporal(err))
		}
		r.busy--
	})
}

// onWaiting stores which requests of the running turn wait for a person. It ignores those
// of an execution that has ended.
func (r *run) onWaiting(_ workflow.Context, p *commonpb.Payload) error {
	// A host of a later version may send more.
	w, err := session.AcceptedRequest[session.Waiting](p)
	if err != nil {
		return session.Invalid("waiting", "is no JSON object", `{"executionId": "…", "requests": ["…"]}`)
	}
	if r.cur != nil && r.cur.live && r.cur.queued.ExecutionID == w.ExecutionID {
		r.cur.waiting = w.Requests
		r.publish()
	}
	return nil
}
