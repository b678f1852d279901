package workflows

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/children"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// validateSpawn refuses a child of a session that has used what is given.
func (r *run) validateSpawn(req session.SpawnRequest, used limits.Used) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.in.Depth() >= session.MaxDepth {
		return session.ErrDepthLimit
	}
	if n := len(r.st.Children); n >= session.MaxChildren && r.child(req.ID) == nil {
		return session.Invalid("children", fmt.Sprintf("%d live already", n), fmt.Sprintf("at most %d at once", session.MaxChildren))
	}
	return children.Check(req, r.in.SessionID, r.options(), used)
}

// spawn starts a child session and returns when it runs, or when the next run has to start
// it. A repeat returns the same child.
func (r *run) spawn(ctx workflow.Context, req session.SpawnRequest) (reply session.SpawnReply, err error) {
	req.ToolUseID = cmp.Or(req.ToolUseID, "spawn-"+req.ID)
	reply = session.SpawnReply{ChildID: req.ID, ToolUseID: req.ToolUseID, Depth: r.in.Depth() + 1}
	// What a reopened session has used is known once it has begun.
	if err := workflow.Await(ctx, func() bool { return r.begun }); err != nil {
		return reply, err
	}
	used := r.usedNow(ctx, req.ID)
	if c := r.child(req.ID); c != nil {
		reply.Starting = c.RunID == ""
		return reply, nil
	}
	if err := r.validateSpawn(req, used); err != nil {
		return reply, session.ToTemporal(err)
	}
	if req.Message, err = withID(ctx, req.Message); err != nil {
		return reply, err
	}
	part := children.Grant(&req.Options.Limits, r.st.Limits, used)
	r.st.Children = append(r.st.Children, children.New(req, children.Inherit(req.Options, r.options()), part))
	r.st.Spawns = append(r.st.Spawns, req)
	s := r.startChild(req)
	if err := workflow.Await(ctx, func() bool { return s.done || r.renewing() }); err != nil {
		return reply, err
	}
	reply.Starting = !s.done
	return reply, s.err
}

// child returns a live child; nil if it has ended.
func (r *run) child(id string) *session.Child {
	if i := slices.IndexFunc(r.st.Children, func(c session.Child) bool { return c.SessionID == id }); i >= 0 {
		return &r.st.Children[i]
	}
	return nil
}

// shares reports whether a child works in this session's sandbox.
func (r *run) shares() bool {
	return slices.ContainsFunc(r.st.Children, func(c session.Child) bool { return c.Shares })
}

// childWantsSandbox reports whether a child waits for this session's sandbox.
func (r *run) childWantsSandbox() bool {
	return r.st.Sandbox == nil && r.closing == "" && !r.unplaced && r.outboxEmpty() && r.shares()
}

func (r *run) childInput(ctx workflow.Context, req session.SpawnRequest) session.Input {
	opts := children.Inherit(req.Options, r.options())
	if opts.Title == "" {
		opts.Title = titleOf(req.Message.Text)
	}
	return session.Input{
		SessionID: req.ID, Version: session.StateVersion, Options: opts, CreatedAt: workflow.Now(ctx), First: &req.Message,
		Parent: &session.Parent{SessionID: r.in.SessionID, Root: r.in.Root(), Depth: r.in.Depth() + 1, ToolUseID: req.ToolUseID},
	}
}

// starting is a child's start. Once it is done, err is why the child does not run.
type starting struct {
	done bool
	err  error
}

// startChild starts a child and waits for its end. subagent:spawned must be in the stream
// before the child starts; its key is the same in each run that tries.
func (r *run) startChild(req session.SpawnRequest) *starting {
	s := &starting{}
	said := r.notify(children.Spawned(*r.child(req.ID), req))
	said.key = "spawned-" + req.ID
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		var out session.Output
		err := workflow.Await(ctx, func() bool { return said.done })
		if err == nil && r.closing != "" {
			err = session.ErrClosed
		}
		if err != nil {
			s.done, s.err = true, session.ToTemporal(err)
		} else {
			err = r.runChild(ctx, req, s, &out)
		}
		r.childGone(req.ID, out, err)
	})
	return s
}

// runChild runs a child's workflow to its end. This run is busy until the child has
// started, because Temporal would drop a pending start with the run.
func (r *run) runChild(ctx workflow.Context, req session.SpawnRequest, s *starting, out *session.Output) error {
	in := r.childInput(ctx, req)
	future := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, children.Options(in)), session.WorkflowType, in)
	r.busy++
	var started workflow.Execution
	err := future.GetChildWorkflowExecution().Get(ctx, &started)
	r.busy--
	r.st.Spawns = slices.DeleteFunc(r.st.Spawns, func(other session.SpawnRequest) bool { return other.ID == req.ID })
	r.child(req.ID).RunID = started.RunID
	switch s.done = true; {
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		s.err = session.ToTemporal(session.Invalid("id", fmt.Sprintf("%q is taken", req.ID), "an id that no session has"))
	case err != nil:
		s.err = fmt.Errorf("session %s: spawn %s: %w", r.in.SessionID, req.ID, err)
	}
	return future.Get(ctx, out)
}

// unpackChildren watches the children of the previous run, about which Temporal reports
// nothing to this run.
func (r *run) unpackChildren() {
	for _, c := range r.st.Children {
		if c.Interrupt {
			r.interruptChild(c.SessionID)
		}
		if c.RunID == "" {
			continue
		}
		workflow.Go(r.ctx, func(ctx workflow.Context) {
			ctx = workflow.WithActivityOptions(ctx, timeouts.Watch)
			var out session.Output
			err := workflow.ExecuteActivity(ctx, contract.ActivityAwaitChild, contract.AwaitChildInput{SessionID: c.SessionID, RunID: c.RunID}).Get(ctx, &out)
			r.childGone(c.SessionID, out, err)
		})
	}
	for _, req := range r.st.Spawns {
		r.startChild(req)
	}
}

// childGone removes an ended child from the list and announces how it ended.
func (r *run) childGone(id string, out session.Output, err error) {
	c := *r.child(id)
	out = children.Charge(c, out, err)
	r.st.CostUSD, r.st.ChildTokens = event.AddKnown(r.st.CostUSD, out.CostUSD), r.st.ChildTokens+out.Tokens
	r.notify(children.Completed(c, out, err))
	r.st.Spawns = slices.DeleteFunc(r.st.Spawns, func(req session.SpawnRequest) bool { return req.ID == id })
	r.st.Children = slices.DeleteFunc(r.st.Children, func(other session.Child) bool { return other.SessionID == id })
	r.publish()
}

// interruptChild passes an interrupt on as soon as the child runs; the next run does if
// this one makes way.
func (r *run) interruptChild(id string) {
	r.child(id).Interrupt = true
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		c := r.awaitStarted(ctx, id, func() bool { return !r.renewing() })
		if c == nil || !c.Interrupt {
			return
		}
		c.Interrupt = false
		r.busy++
		req := session.InterruptRequest{Reason: "Parent interrupted"}
		if err := workflow.SignalExternalWorkflow(ctx, id, "", session.SignalInterrupt, req).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Info("a child was gone before the interrupt reached it", "child", id, "error", err)
		}
		r.busy--
	})
}

// closeChild asks a child to close as soon as it runs.
func (r *run) closeChild(id string) {
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		if r.awaitStarted(ctx, id, func() bool { return true }) == nil {
			return
		}
		if err := workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Info("a child was gone before it could be closed", "child", id, "error", err)
		}
	})
}

// awaitStarted waits until a child runs and also returns true; nil if the child ended
// before.
func (r *run) awaitStarted(ctx workflow.Context, id string, also func() bool) *session.Child {
	err := workflow.Await(ctx, func() bool { c := r.child(id); return c == nil || c.RunID != "" && also() })
	if err != nil {
		return nil
	}
	return r.child(id)
}
