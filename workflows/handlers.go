package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// listen registers every handler and starts the deliverer. It does not block, so no message
// can arrive before its handler is registered.
func (r *run) listen(ctx workflow.Context) error {
	err := errors.Join(
		update(r, session.UpdateSend, r.send, r.validateSend),
		update(r, session.UpdateRender, r.render, func(req session.RenderRequest) error { return r.validateConfigure(req.Options) }),
		update(r, session.UpdateInterrupt, r.interruptUpdate, r.validateInterrupt),
		workflow.SetUpdateHandlerWithOptions(r.ctx, session.UpdateClearAbort, r.clearAbort, workflow.UpdateHandlerOptions{
			Validator: func() error { return session.ToTemporal(r.open()) },
		}),
		update(r, session.UpdateConfigure, r.configureUpdate, r.validateConfigure),
		update(r, session.UpdateRespond, func(ctx workflow.Context, req session.RespondRequest) (any, error) { return nil, r.respond(ctx, req) }, r.validateRespond),
		update(r, session.UpdateEditQueue, r.editQueue, r.validateEditQueue),
		update(r, session.UpdateSpawn, r.spawn, func(req session.SpawnRequest) error { return r.validateSpawn(req, r.used()) }),
		update(r, session.UpdateEvict, r.evict, r.validateEvict),
		workflow.SetUpdateHandler(r.ctx, session.UpdateClose, r.closeUpdate),
		r.listenQueries(),
	)
	if err != nil {
		return fmt.Errorf("session %s: register handlers: %w", r.in.SessionID, err)
	}
	for _, s := range r.signals() {
		workflow.Go(r.ctx, r.receive(s))
	}
	workflow.Go(r.ctx, r.deliver)
	workflow.Go(r.ctx, func(own workflow.Context) {
		// The only use of the context that is cancelled with the workflow.
		ctx.Done().Receive(own, nil)
		r.requestClose("cancelled")
	})
	return nil
}

// update registers an update's handler with its validator. It decodes the payload itself, for
// an error that names the field.
func update[Req, Res any](r *run, name string, handle func(workflow.Context, Req) (Res, error), validate func(Req) error) error {
	return workflow.SetUpdateHandlerWithOptions(r.ctx, name, func(ctx workflow.Context, raw converter.RawValue) (res Res, err error) {
		req, err := session.AcceptedRequest[Req](raw.Payload())
		if err != nil {
			return res, session.ToTemporal(err)
		}
		return handle(ctx, req)
	}, workflow.UpdateHandlerOptions{Validator: func(raw converter.RawValue) error {
		req, err := session.DecodeRequest[Req](name, raw.Payload())
		if err == nil {
			err = validate(req)
		}
		return session.ToTemporal(err)
	}})
}

// open refuses everything on a closing session.
func (r *run) open() error {
	if r.closing != "" {
		return session.ErrClosed
	}
	return nil
}

func (r *run) validateSend(m session.Message) error {
	if err := cmp.Or(r.open(), m.Validate()); err != nil {
		return err
	}
	if _, again, err := r.repeated(m); again {
		return err
	}
	return r.mayQueue(m)
}

// mayQueue refuses a message that requires an idle session, or exceeds the queue.
func (r *run) mayQueue(m session.Message) error {
	if m.WhenBusy == session.BusyReject && (r.status() != session.StatusIdle || r.runnable()) {
		return session.ErrBusy
	}
	return r.room(m)
}

// room refuses a message when too many wait, or too many bytes. It refuses one that was
// accepted before and whose receipt was dropped: no agent is sent a message twice.
func (r *run) room(m session.Message) error {
	if m.ID != "" && r.st.Spent.Has(m.ID) {
		return session.Invalid("message.id", fmt.Sprintf("%q was used before", m.ID), "an id of its own for each message")
	}
	return append(slices.Clip(r.st.Queue), session.Queued{Message: m}).Check()
}

func (r *run) send(ctx workflow.Context, m session.Message) (session.Receipt, error) {
	// A signal in the same task was sent before: it goes first.
	r.drain(ctx)
	m, err := withID(ctx, m)
	if err != nil {
		return session.Receipt{}, err
	}
	if rec, again, err := r.repeated(m); again {
		return rec, session.ToTemporal(err)
	}
	return r.steer(ctx, r.acceptToRun(m)), nil
}

// acceptToRun queues a message, and releases it and all held messages.
func (r *run) acceptToRun(m session.Message) session.Receipt {
	if m.WhenBusy == session.BusyInterrupt {
		r.interrupt("a message went first")
	}
	rec := r.accept(m, false)
	r.release()
	return rec
}

func (r *run) render(ctx workflow.Context, req session.RenderRequest) (session.RenderReply, error) {
	r.drain(ctx)
	r.rearm = r.rearm || r.idling
	reply := session.RenderReply{Changed: r.configure(req.Options), Receipts: []session.Receipt{}}
	if reply.Changed && r.cur == nil && len(r.st.Queue) == 0 {
		m, err := withID(ctx, session.Message{Text: session.RenderText})
		if err != nil {
			return reply, err
		}
		r.accept(m, false)
	}
	runs := slices.Clone(r.st.Queue)
	if r.cur != nil {
		runs = slices.Insert(runs, 0, r.cur.queued)
	}
	for _, q := range runs {
		if rec, ok := r.known(q.Message.ID); ok {
			reply.Receipts = append(reply.Receipts, rec)
		}
	}
	r.release()
	return reply, nil
}

func (r *run) clearAbort(workflow.Context) error {
	r.st.Aborted = false
	r.publish()
	return nil
}

func (r *run) validateInterrupt(req session.InterruptRequest) error {
	if err := r.open(); err != nil {
		return err
	}
	if x := req.ExecutionID; x != "" && (r.cur == nil || r.cur.queued.ExecutionID != x) {
		return session.Invalid("executionId", fmt.Sprintf("%q does not run", x), "the execution that runs")
	}
	if err := req.Validate(); err != nil || req.Message == nil {
		return err
	}
	if _, again, err := r.repeated(*req.Message); again {
		return err
	}
	return r.room(*req.Message)
}

func (r *run) interruptUpdate(ctx workflow.Context, req session.InterruptRequest) (reply session.InterruptReply, err error) {
	var m session.Message
	if req.Message != nil {
		if m, err = withID(ctx, *req.Message); err != nil {
			return reply, err
		}
		if rec, again, err := r.repeated(m); again {
			// A repeat must not interrupt the very message that it sent.
			return session.InterruptReply{Running: r.cur != nil, Receipt: &rec}, session.ToTemporal(err)
		}
	}
	reply.Running = r.interruptTree(req.Reason)
	if req.ClearQueue {
		reply.Cancelled = r.clearQueue(req.Reason)
	}
	if req.Message != nil {
		// If idle, an interrupt only queues, last; if running, its message goes next.
		if reply.Running {
			m.WhenBusy = session.BusyInterrupt
		}
		rec := r.accept(m, !reply.Running)
		reply.Receipt = &rec
	}
	return reply, nil
}

// interruptTree interrupts the session and its children, and reports whether any of them
// ran. A child ends with its work, so a live one runs.
func (r *run) interruptTree(reason string) bool {
	return r.interrupt(reason) || len(r.st.Children) > 0
}

// validateConfigure checks the resulting metadata: it is carried from run to run, so many
// small changes must not make it grow either.
func (r *run) validateConfigure(c session.Configure) error {
	if err := cmp.Or(r.open(), c.Validate()); err != nil {
		return err
	}
	c.Metadata = r.st.MergedMetadata(c)
	return c.Validate()
}

func (r *run) configureUpdate(_ workflow.Context, c session.Configure) (session.Snapshot, error) {
	r.configure(c)
	return r.snapshot(), nil
}

// configure applies the changes and reports whether there were any.
func (r *run) configure(c session.Configure) bool {
	idle := r.st.IdleTimeoutMS
	update, changed := r.st.Configure(c)
	if !changed {
		return false
	}
	if r.idling && r.st.IdleTimeoutMS != idle {
		r.rearm = true
	}
	n := r.notify(update)
	if live := contract.LiveOptions(update); r.cur != nil && live != (contract.Options{}) {
		n.options = &live
	}
	r.publish()
	return true
}

func (r *run) validateRespond(req session.RespondRequest) error {
	if err := cmp.Or(r.open(), req.Validate()); err != nil {
		return err
	}
	if r.cur == nil {
		return session.Invalid("requestId", fmt.Sprintf("%q is not open: no turn runs", req.RequestID), "the id of an open request")
	}
	return nil
}

// respond sends an answer until the turn took it or is over: a worker may be replaced
// meanwhile, and this run by the next one, which then sends it.
func (r *run) respond(ctx workflow.Context, req session.RespondRequest) error {
	cur := r.cur
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if r.runs(cur) && r.renewing() {
			r.st.Answers = append(r.st.Answers, req)
			return nil
		}
		out, err := r.control(ctx, contract.ControlInput{ID: "respond-" + req.RequestID, Answer: &req})
		if !out.Handed && r.cur == cur && r.decide(req.RequestID, req.Decision()) {
			return nil
		}
		if invalid, ok := errors.AsType[*session.InvalidError](session.FromTemporal(err)); ok && invalid.Field == "input" {
			return err // the request stays open
		}
		// A new attempt may not have read the request yet, which the previous attempt
		// announced.
		if out.Handed || timeouts.IsPermanent(err) && !r.waitsFor(cur, req.RequestID) {
			r.answered(cur, req.RequestID)
			return err
		}
		if !r.runs(cur) {
			return cmp.Or(err, session.ToTemporal(session.Invalid("requestId", fmt.Sprintf("%q is not open", req.RequestID), "the id of an open request")))
		}
		if _, err := awaitAtMost(ctx, wait, func() bool { return !r.runs(cur) || r.renewing() }); err != nil {
			return err
		}
	}
}

// waitsFor reports whether a running turn is known to wait for an answer.
func (r *run) waitsFor(cur *turn, requestID string) bool {
	return r.runs(cur) && slices.Contains(cur.waiting, requestID)
}

// answered removes a request from the waiting ones, when the turn took its answer.
func (r *run) answered(cur *turn, requestID string) {
	if !r.waitsFor(cur, requestID) {
		return
	}
	cur.waiting = slices.DeleteFunc(cur.waiting, func(id string) bool { return id == requestID })
	r.publish()
}

func (r *run) evict(_ workflow.Context, req session.EvictRequest) (any, error) {
	if r.st.Sandbox != nil {
		r.st.Evict = cmp.Or(req.Reason, session.EvictManual)
	}
	return nil, nil
}

func (r *run) closeUpdate(workflow.Context) error {
	r.requestClose("closed")
	return nil
}

func (r *run) validateEvict(req session.EvictRequest) error {
	if err := cmp.Or(r.open(), req.Validate()); err != nil {
		return err
	}
	if req.SandboxID != "" && (r.st.Sandbox == nil || r.st.Sandbox.ID != req.SandboxID) {
		return session.Invalid("sandboxId", fmt.Sprintf("%q is not the session's sandbox", req.SandboxID), "the sandbox that the query snapshot names")
	}
	if session.EvictsBusy(req.Reason) {
		return nil // it waits for the turn's end
	}
	ending := r.cur == nil && r.st.Sandbox != nil && !r.idling
	if r.cur != nil && (!r.cur.parked || r.st.Sandbox != nil) || r.runnable() || r.shares() || ending {
		return session.ErrBusy
	}
	return nil
}
