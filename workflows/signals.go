package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// signal is a signal by its name, and its handler.
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

// receive returns the coroutine that hands a signal's payloads to a handler, raw:
// anybody may send anything, and nothing sent may fail a workflow task.
func (r *run) receive(s signal) func(workflow.Context) {
	return func(ctx workflow.Context) {
		ch := workflow.GetSignalChannel(ctx, s.name)
		for {
			// Not Receive: that takes a value before its coroutine runs, so that
			// drain can't see it and continue-as-new loses it.
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

// drain handles what signals have been delivered and not been read, before a
// run ends.
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

// refuse records a signal that is no message: a signal has no caller to answer.
func (r *run) refuse(name string, err error) {
	info := event.ErrorInfo{Message: fmt.Sprintf("signal %s: %v", name, err), Code: session.TypeInvalid}
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		info.Field = invalid.Field
	} else if errors.Is(err, session.ErrBusy) {
		info.Code, info.Field = session.TypeBusy, "message.whenBusy"
	} else if errors.Is(err, session.ErrConflict) {
		info.Code, info.Field = session.TypeConflict, "message.id"
	}
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
	} else {
		r.acceptToRun(m)
	}
	return nil
}

func (r *run) onInterrupt(ctx workflow.Context, p *commonpb.Payload) error {
	var req session.InterruptRequest
	if p != nil && len(p.GetData()) > 0 && json.Unmarshal(p.GetData(), &req) != nil {
		return session.Invalid("interrupt", "is no JSON object", `{"reason": "…"}, or nothing`)
	}
	if r.closing != "" && req.Message == nil {
		// Closing interrupts already.
		return nil
	}
	if err := r.validateInterrupt(req); err != nil {
		return err
	}
	_, err := r.interruptUpdate(ctx, req)
	return err
}

// onRespond answers a permission request; without an id, the one that is open. What
// comes next does not wait for it.
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
	r.responding++
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		if err := r.respond(ctx, req); err != nil {
			r.refuse(session.SignalRespond, session.FromTemporal(err))
		}
		r.responding--
	})
	return nil
}

// onWaiting takes over which requests of the running turn wait for a person.
// What is about an execution that has ended changes nothing.
func (r *run) onWaiting(_ workflow.Context, p *commonpb.Payload) error {
	var w session.Waiting
	if err := json.Unmarshal(p.GetData(), &w); err != nil {
		return session.Invalid("waiting", "is no JSON object", `{"executionId": "…", "requests": ["…"]}`)
	}
	if r.cur != nil && r.cur.live && r.cur.queued.ExecutionID == w.ExecutionID {
		r.cur.waiting = w.Requests
		r.publish()
	}
	return nil
}
