package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/event"
)

// Handle addresses one incarnation of a session: after it is closed every operation returns
// ErrClosed, also when the session is reopened, because that is another
// life. Safe for concurrent use.
type Handle struct {
	c  *Client
	id string
	// first is the run that the incarnation began with; it distinguishes them.
	first string
}

// ID is the session's id, and its workflow's.
func (h *Handle) ID() string { return h.id }

// Send queues a message and runs it. It returns when the message is accepted,
// not when it is answered: see Wait. A message that was sent before, with its id,
// returns the first receipt; one that says something else is refused with
// ErrConflict. With BusyReject a turn whose end is in the stream already
// does not count as running.
func (h *Handle) Send(ctx context.Context, m Message) (Receipt, error) {
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	if err := m.Validate(); err != nil {
		return Receipt{}, err
	}
	var rec Receipt
	err := h.update(ctx, UpdateSend, sendID(m), &rec, m)
	if m.WhenBusy == BusyReject && errors.Is(err, ErrBusy) && h.endTaken(ctx) {
		err = h.update(ctx, UpdateSend, sendID(m), &rec, m)
	}
	return rec, err
}

// sendID is the id of the update that sends a message: Temporal itself answers a
// repeated one. Another message under the same id gets as far as the workflow.
func sendID(m Message) string { return "send-" + m.ID + "-" + m.Digest() }

// Queue queues a message without running it; a later Send or Render runs it.
func (h *Handle) Queue(ctx context.Context, m Message) error {
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	if err := m.Validate(); err != nil {
		return err
	}
	if err := h.live(ctx); err != nil {
		return err
	}
	return h.failed(ctx, SignalQueue, h.c.o.Temporal.SignalWorkflow(ctx, h.id, "", SignalQueue, m))
}

// Render applies options and runs what is queued, without adding to it.
func (h *Handle) Render(ctx context.Context, o Configure) (RenderReply, error) {
	var reply RenderReply
	return reply, h.update(ctx, UpdateRender, "", &reply, RenderRequest{Options: o})
}

// Interrupt stops the running turn and those of all children. It returns when
// the session has taken it; query:interrupted comes when the agent is quiet.
func (h *Handle) Interrupt(ctx context.Context, req InterruptRequest) (InterruptReply, error) {
	if err := req.Validate(); err != nil {
		return InterruptReply{}, err
	}
	if req.Message != nil && req.Message.ID == "" {
		m := *req.Message
		m.ID = uuid.NewString()
		req.Message = &m
	}
	var reply InterruptReply
	return reply, h.update(ctx, UpdateInterrupt, "", &reply, req)
}

// ClearAbort takes back the mark that an interrupt left.
func (h *Handle) ClearAbort(ctx context.Context) error {
	return h.update(ctx, UpdateClearAbort, "", nil)
}

// Spawn starts a child session with a first message. At depth MaxDepth it is
// refused with ErrDepthLimit.
func (h *Handle) Spawn(ctx context.Context, req SpawnRequest) (SpawnReply, error) {
	if req.ID == "" {
		req.ID = uuid.NewString()
	}
	if req.Message.ID == "" {
		req.Message.ID = uuid.NewString()
	}
	if req.Options.Agent != "" {
		if _, err := h.c.o.Agents.Get(req.Options.Agent); err != nil {
			return SpawnReply{}, Invalid("agent", fmt.Sprintf("%q is unknown", req.Options.Agent), "one of "+h.c.agents())
		}
	}
	var reply SpawnReply
	return reply, h.update(ctx, UpdateSpawn, "spawn-"+req.ID, &reply, req)
}

// Respond answers a permission request or a question of the agent.
func (h *Handle) Respond(ctx context.Context, req RespondRequest) error {
	return h.update(ctx, UpdateRespond, "", nil, req)
}

// Configure changes title, metadata, tags, model, permission or idle timeout
// and returns the session as it is then.
func (h *Handle) Configure(ctx context.Context, c Configure) (Snapshot, error) {
	if err := c.Validate(); err != nil {
		return Snapshot{}, err
	}
	var s Snapshot
	return s, h.update(ctx, UpdateConfigure, "", &s, c)
}

// Evict ends the sandbox and keeps the session; the next message makes a
// new one. It returns when the session has none, or another. Refused with ErrBusy
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
	if err := h.update(ctx, UpdateClose, "", nil); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	served, stop := h.whileServed(ctx)
	return stop(h.awaitClosed(served))
}

// awaitClosed waits for the end of the session's life.
func (h *Handle) awaitClosed(ctx context.Context) error {
	run := h.first
	for {
		err := h.c.o.Temporal.GetWorkflow(ctx, h.id, run).Get(ctx, nil)
		var missing *serviceerror.NotFound
		var ended *temporal.WorkflowExecutionError
		if err != nil && !errors.As(err, &missing) && !errors.As(err, &ended) {
			return h.c.unavailable("close session "+h.id, err)
		}
		// The end of one run may be an operator's reset, which made another.
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

// Snapshot asks the workflow for its small state. It answers for a closed
// session too, while Temporal retains it.
func (h *Handle) Snapshot(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	return s, h.query(ctx, QuerySnapshot, &s)
}

// Inspect asks for all state without bodies. Where the session waits for
// something, WaitsFor has Temporal's latest word on it: what is tried again, and
// why, or that no host has a free slot.
func (h *Handle) Inspect(ctx context.Context) (Inspection, error) {
	var i Inspection
	if err := h.query(ctx, QueryInspect, &i); err != nil {
		return i, err
	}
	if i.Status == StatusClosed && i.WaitsFor == "" {
		return i, nil
	}
	pending, err := h.Pending(ctx)
	if err == nil && len(pending) > 0 {
		i.WaitsFor = fmt.Sprintf("%s, attempt %d: %s", pending[0].Activity, pending[0].Attempt, pending[0].Failure)
	}
	return i, err
}

// Result answers for one of the last executions, by execution or message id; ""
// is the last one that has ended. Errors: ErrBusy while it runs or waits, ErrNotFound for one that is not known.
func (h *Handle) Result(ctx context.Context, id string) (Result, error) {
	var r Result
	return r, h.query(ctx, QueryResult, &r, id)
}

func (h *Handle) query(ctx context.Context, name string, out any, args ...any) error {
	v, err := h.c.o.Temporal.QueryWorkflow(ctx, h.id, "", name, args...)
	if err != nil {
		return h.failed(ctx, name, fromQuery(err))
	}
	if err := v.Get(out); err != nil {
		return fmt.Errorf("session %s: %s: %w", h.id, name, err)
	}
	return nil
}

func (h *Handle) update(ctx context.Context, name, updateID string, out any, args ...any) error {
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

// live refuses a handle whose session's life is over, for what Temporal
// itself would deliver to the next life.
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

// failed puts a failure of Temporal into this package's words.
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
		return h.c.unavailable(fmt.Sprintf("session %s: %s", h.id, name), err)
	}
	if _, lerr := h.c.lookup(ctx, h.id); lerr != nil {
		return lerr
	}
	return fmt.Errorf("session %s: %w", h.id, ErrClosed)
}

// gone reports whether the workflow that was asked has ended or never was.
func gone(err error) bool {
	var missing *serviceerror.NotFound
	var app *temporal.ApplicationError
	if errors.As(err, &missing) {
		return true
	}
	return errors.As(err, &app) && app.Type() == "AcceptedUpdateCompletedWorkflow"
}

// Err is nil for a completed execution, else an error that says how it ended.
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
