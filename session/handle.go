package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/event"
)

// Handle addresses one incarnation of a session: after it is closed every request returns
// ErrClosed, also when the session is reopened, because that is another incarnation. State,
// results and events are the session's: they can be read when it is closed, and of a reopened
// one they are those of the new incarnation. Safe for concurrent use.
type Handle struct {
	c  *Client
	id string
	// first is the run that the incarnation started with; it distinguishes
	// incarnations.
	first string
	// interceptors are its own; see Use.
	interceptors []Interceptor
}

// ID returns the id of the session and of its workflow.
func (h *Handle) ID() string { return h.id }

// Send queues a message and runs it. It returns when the message is accepted, not when it
// is answered: see Wait. For a message that was sent before with the same id, it returns
// the first receipt; another content under the id is refused with ErrConflict. With
// BusyReject a turn whose end is in the stream already does not count as running. With
// BusySteer it returns when the working agent has the message, or can't take it now: see
// Receipt.Handling.
func (h *Handle) Send(ctx context.Context, m Message) (rec Receipt, err error) {
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	id := m.ID
	call := &Call{Operation: OperationSend, Request: &m, Reply: &rec}
	err = h.intercepted(ctx, call, func(ctx context.Context) error {
		m.ID = id
		return h.send(ctx, m, &rec)
	})
	return rec, err
}

func (h *Handle) send(ctx context.Context, m Message, rec *Receipt) error {
	if err := m.Validate(); err != nil {
		return err
	}
	err := h.update(ctx, UpdateSend, sendID(m), rec, m)
	if m.WhenBusy == BusyReject && errors.Is(err, ErrBusy) && h.endTaken(ctx) {
		err = h.update(ctx, UpdateSend, sendID(m), rec, m)
	}
	return err
}

// sendID returns the id of the update that sends a message: Temporal itself
// answers a repeated one. Another message under the same id reaches the workflow,
// which refuses it.
func sendID(m Message) string { return "send-" + m.ID + "-" + m.Digest() }

// Queue queues a message without running it; a later Send or Render runs it.
func (h *Handle) Queue(ctx context.Context, m Message) error {
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	id := m.ID
	return h.intercepted(ctx, &Call{Operation: OperationQueue, Request: &m}, func(ctx context.Context) error {
		m.ID = id
		return h.queue(ctx, m)
	})
}

func (h *Handle) queue(ctx context.Context, m Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if err := h.live(ctx); err != nil {
		return err
	}
	return h.failed(ctx, SignalQueue, h.c.o.Temporal.SignalWorkflow(ctx, h.id, "", SignalQueue, m))
}

// Render applies options and runs the queue, without adding to it.
func (h *Handle) Render(ctx context.Context, o Configure) (reply RenderReply, err error) {
	call := &Call{Operation: OperationRender, Request: &o, Reply: &reply}
	err = h.intercepted(ctx, call, func(ctx context.Context) error {
		return h.update(ctx, UpdateRender, "", &reply, RenderRequest{Options: o})
	})
	return reply, err
}

// Interrupt stops the running turn and those of all children. It returns when the
// session has accepted it; query:interrupted follows when the agent is quiet.
func (h *Handle) Interrupt(ctx context.Context, req InterruptRequest) (reply InterruptReply, err error) {
	id := uuid.NewString()
	if req.Message != nil {
		id = cmp.Or(req.Message.ID, id)
	}
	call := &Call{Operation: OperationInterrupt, Request: &req, Reply: &reply}
	err = h.intercepted(ctx, call, func(ctx context.Context) error {
		if req.Message != nil {
			m := *req.Message
			m.ID, req.Message = id, &m
		}
		if err := req.Validate(); err != nil {
			return err
		}
		return h.update(ctx, UpdateInterrupt, "", &reply, req)
	})
	return reply, err
}

// ClearAbort clears the mark that an interrupt left.
func (h *Handle) ClearAbort(ctx context.Context) error {
	return h.update(ctx, UpdateClearAbort, "", nil)
}

// Spawn starts a child session with a first message and returns when it runs. At
// depth MaxDepth it is refused with ErrDepthLimit.
func (h *Handle) Spawn(ctx context.Context, req SpawnRequest) (reply SpawnReply, err error) {
	if req.ID == "" {
		req.ID = uuid.NewString()
	}
	if req.Message.ID == "" {
		req.Message.ID = uuid.NewString()
	}
	id, message := req.ID, req.Message.ID
	call := &Call{Operation: OperationSpawn, Request: &req, Reply: &reply}
	err = h.intercepted(ctx, call, func(ctx context.Context) error {
		req.ID, req.Message.ID = id, message
		return h.spawn(ctx, req, &reply)
	})
	return reply, err
}

func (h *Handle) spawn(ctx context.Context, req SpawnRequest, reply *SpawnReply) error {
	if req.Options.Agent != "" {
		if err := h.c.validateAgent(req.Options); err != nil {
			return err
		}
	}
	err := h.update(ctx, UpdateSpawn, "spawn-"+req.ID, reply, req)
	if err != nil || !reply.Starting {
		return err
	}
	reply.Starting = false
	return h.awaitStart(ctx, req.ID)
}

// SpawnExecution spawns a child as Spawn does, and returns the execution of its first
// message, which is used like that of any message.
func (h *Handle) SpawnExecution(ctx context.Context, req SpawnRequest) (*Execution, error) {
	if req.Message.ID == "" {
		req.Message.ID = uuid.NewString()
	}
	reply, err := h.Spawn(ctx, req)
	if err != nil {
		return nil, err
	}
	child, err := h.c.Get(ctx, reply.ChildID)
	if err != nil {
		return nil, err
	}
	return child.FindExecution(ctx, req.Message.ID)
}

// startPoll is the interval for checking on a child that its parent's next run starts.
const startPoll = 100 * time.Millisecond

// awaitStart waits until a child runs, or is no child of the session any more; the reason
// for that is in the session's stream.
func (h *Handle) awaitStart(ctx context.Context, id string) error {
	for {
		s, err := h.Snapshot(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Children, func(c Child) bool { return c.SessionID == id })
		if i < 0 || s.Children[i].RunID != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startPoll):
		}
	}
}

// Respond answers a permission request or a question of the agent.
func (h *Handle) Respond(ctx context.Context, req RespondRequest) error {
	return h.update(ctx, UpdateRespond, "", nil, req)
}

// RespondTo answers the permission request of an event of the session's tree (TreeEvents),
// in the session that it comes from. The request's id in req is replaced by the event's.
func (h *Handle) RespondTo(ctx context.Context, ev event.Event, req RespondRequest) error {
	asked, ok := ev.Payload.(event.PermissionRequested)
	if !ok {
		return Invalid("event", fmt.Sprintf("is %s", ev.Type()), "a permission request")
	}
	req.RequestID = asked.RequestID
	if ev.Context.SessionID == h.id {
		return h.Respond(ctx, req)
	}
	below, err := h.c.Get(ctx, ev.Context.SessionID)
	if err != nil {
		return err
	}
	return below.Respond(ctx, req)
}

// Configure changes title, metadata, tags, model, permission or idle timeout and
// returns the session's state after it.
func (h *Handle) Configure(ctx context.Context, c Configure) (Snapshot, error) {
	if err := c.Validate(); err != nil {
		return Snapshot{}, err
	}
	var s Snapshot
	return s, h.update(ctx, UpdateConfigure, "", &s, c)
}

// Evict ends the sandbox and keeps the session; the next message makes a new one.
// It returns when the session has none, or another one. Refused with ErrBusy
// while a turn runs or is queued.
func (h *Handle) Evict(ctx context.Context) error {
	s, err := h.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := h.update(ctx, UpdateEvict, "", nil); err != nil {
		return err
	}
	for was := s.Sandbox; was != nil && s.Sandbox != nil && s.Sandbox.ID == was.ID; {
		if err := sleep(ctx, statePollMost); err != nil {
			return fmt.Errorf("evict session %s: its sandbox is still there: %w", h.id, err)
		}
		if s, err = h.Snapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the children, archives, ends the sandbox and completes the
// session; it returns when that is done. Closing a closed session succeeds.
func (h *Handle) Close(ctx context.Context) error {
	return h.intercepted(ctx, &Call{Operation: OperationClose}, h.close)
}

func (h *Handle) close(ctx context.Context) error {
	if err := h.update(ctx, UpdateClose, "", nil); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	served, stop := h.whileServed(ctx)
	return stop(h.awaitClosed(served))
}

// awaitClosed waits until the session is closed.
func (h *Handle) awaitClosed(ctx context.Context) error {
	run := h.first
	for {
		err := h.c.o.Temporal.GetWorkflow(ctx, h.id, run).Get(ctx, nil)
		var missing *serviceerror.NotFound
		var ended *temporal.WorkflowExecutionError
		if err != nil && !errors.As(err, &missing) && !errors.As(err, &ended) {
			return h.c.unavailable(ctx, "close session "+h.id, err)
		}
		// A run may have ended by an operator's reset, which started another.
		known, err := h.c.lookup(ctx, h.id)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !known.open || known.first != h.first {
			return nil
		}
		run = known.run
	}
}

// Snapshot queries the workflow's small state. It works for a closed session too,
// while Temporal retains it; its title is that with which it was closed.
func (h *Handle) Snapshot(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	if err := h.query(ctx, QuerySnapshot, &s); err != nil || s.Status != StatusRunning && s.Status != StatusWaiting {
		return s, err
	}
	now, err := h.progress(ctx)
	s.CurrentTick = now.Ticks
	return s, err
}

// Inspect queries all state without bodies. If the session waits for something,
// WaitsFor has Temporal's latest information: what is retried and why, or that no
// host has a free slot. Of a closed session it has what Snapshot has; see
// [Inspection.Amended].
func (h *Handle) Inspect(ctx context.Context) (Inspection, error) {
	var i Inspection
	if err := h.query(ctx, QueryInspect, &i); err != nil {
		return i, err
	}
	if i.Status == StatusClosed && i.WaitsFor == "" {
		return i, nil
	}
	pending, now, err := h.pending(ctx)
	if err == nil && len(pending) > 0 && i.Status != StatusPaused { // the limit is what it waits for
		i.WaitsFor = fmt.Sprintf("%s, attempt %d: %s", pending[0].Activity, pending[0].Attempt, pending[0].Failure)
	}
	if i.CurrentTick = now.Ticks; len(now.Tools) > 0 {
		i.LastTools = now.Tools
	}
	return i, err
}

// Result returns the result of one of the last executions, by execution or message id; ""
// is the last one that has ended. Errors: ErrBusy while it runs or waits, a
// NoMessageError for an unknown one.
func (h *Handle) Result(ctx context.Context, id string) (Result, error) {
	var r Result
	return r, h.query(ctx, QueryResult, &r, id)
}

// query asks the session's workflow. Error: a NoMessageError if the session knows nothing of the
// id in args.
func (h *Handle) query(ctx context.Context, name string, out any, args ...any) error {
	err := Query(ctx, h.c.o.Temporal, h.id, name, out, args...)
	if errors.Is(err, ErrNoWorker) {
		return fmt.Errorf("session %s: %s: %w", h.id, name, err)
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == TypeNotFound {
		return &NoMessageError{SessionID: h.id, ID: fmt.Sprint(args...)} // the session itself has answered
	}
	if err != nil {
		return h.failed(ctx, name, err)
	}
	return nil
}

func (h *Handle) update(ctx context.Context, name, updateID string, out any, args ...any) error {
	for wait := firstAgain; ; wait *= 2 {
		err := h.updateOnce(ctx, name, updateID, out, args...)
		var unserved *UnservedError
		if !errors.As(err, &unserved) || unserved.Worker != "" || wait > lastAgain {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// firstAgain and lastAgain bound the wait before an update is sent again that arrived in
// the very task with which a run tried to continue as new: if more arrived meanwhile the
// server fails that task, and with it the update, which has had no effect.
const (
	firstAgain = 50 * time.Millisecond
	lastAgain  = 10 * time.Second
)

func (h *Handle) updateOnce(ctx context.Context, name, updateID string, out any, args ...any) error {
	served, stop := h.whileServed(ctx)
	u, err := h.c.o.Temporal.UpdateWorkflow(served, client.UpdateWorkflowOptions{
		WorkflowID: h.id, UpdateID: updateID, UpdateName: name, Args: args,
		WaitForStage: client.WorkflowUpdateStageCompleted, FirstExecutionRunID: h.first,
	})
	if err == nil {
		err = u.Get(served, out)
	}
	return h.failed(ctx, name, stop(err))
}

// live refuses a handle whose incarnation has ended, for what Temporal itself
// would deliver to the next one.
func (h *Handle) live(ctx context.Context) error {
	known, err := h.c.lookup(ctx, h.id)
	if err != nil {
		return err
	}
	if !known.open || known.first != h.first {
		return fmt.Errorf("session %s: %w", h.id, ErrClosed)
	}
	return nil
}

// failed converts a failure of Temporal to an error of this package.
func (h *Handle) failed(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	var unserved *UnservedError
	if errors.As(err, &unserved) {
		return err
	}
	var notReady *serviceerror.WorkflowNotReady
	if errors.As(err, &notReady) {
		if fault := h.unserved(ctx); fault != nil {
			return fmt.Errorf("session %s: %w", h.id, fault)
		}
	}
	if named := FromTemporal(err); named != err {
		var invalid *InvalidError
		if errors.As(named, &invalid) {
			return named
		}
		return fmt.Errorf("session %s: %s: %w", h.id, name, named)
	}
	if !gone(err) {
		return h.c.unavailable(ctx, fmt.Sprintf("session %s: %s", h.id, name), err)
	}
	if _, lerr := h.c.lookup(ctx, h.id); lerr != nil {
		return lerr
	}
	return fmt.Errorf("session %s: %w", h.id, ErrClosed)
}

// gone reports whether the workflow has ended or never existed.
func gone(err error) bool {
	var missing *serviceerror.NotFound
	var app *temporal.ApplicationError
	if errors.As(err, &missing) {
		return true
	}
	return errors.As(err, &app) && app.Type() == "AcceptedUpdateCompletedWorkflow"
}

// Err returns nil for a completed execution, else an error with how it ended.
func (r Result) Err() error {
	switch r.Outcome {
	case Completed:
		return nil
	case Interrupted:
		return fmt.Errorf("execution %s was interrupted: %s", r.ExecutionID, orUnsaid(r.Reason))
	}
	info := r.Error
	if info == nil {
		info = &event.ErrorInfo{Message: "no reason was recorded"}
	}
	return fmt.Errorf("execution %s failed: %s", r.ExecutionID, info.Message)
}

func orUnsaid(reason string) string {
	if reason == "" {
		return "no reason was given"
	}
	return reason
}
