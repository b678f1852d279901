package workflows

import (
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

func (r *run) depth() int {
	if r.in.Parent == nil {
		return 0
	}
	return r.in.Parent.Depth
}

func (r *run) root() string {
	if r.in.Parent == nil {
		return r.in.SessionID
	}
	return r.in.Parent.Root
}

func (r *run) validateSpawn(req session.SpawnRequest) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.depth() >= session.MaxDepth {
		return session.ErrDepthLimit
	}
	if n := len(r.st.Children); n >= session.MaxChildren && !r.hasChild(req.ID) {
		return session.Invalid("children", fmt.Sprintf("%d live already", n), fmt.Sprintf("at most %d at once", session.MaxChildren))
	}
	if err := session.ValidateID("id", req.ID); err != nil {
		return err
	}
	if req.ID == r.in.SessionID {
		return session.Invalid("id", fmt.Sprintf("%q is the spawning session itself", req.ID), "an id of its own")
	}
	if err := r.inherit(req.Options).Validate(); err != nil {
		return err
	}
	return req.Message.Validate()
}

// inherit returns a child's options with its parent's where they are empty.
func (r *run) inherit(o session.Options) session.Options {
	if o.Agent == "" {
		o.Agent = r.in.Options.Agent
		if o.Profile == "" {
			o.Profile = r.in.Options.Profile
		}
		if o.Model == "" {
			o.Model = r.st.Model
		}
	}
	if o.Permission == "" {
		o.Permission = r.st.Permission
	}
	if o.Permissions == nil {
		o.Permissions = r.st.Permissions
	}
	if o.PermissionDeadline == (permission.Deadline{}) {
		o.PermissionDeadline = r.st.PermissionDeadline
	}
	if o.Tenant == "" {
		o.Tenant = r.in.Options.Tenant
	}
	return o
}

// spawn starts a child session and returns when it runs. A repeat names the
// same child.
func (r *run) spawn(ctx workflow.Context, req session.SpawnRequest) (session.SpawnReply, error) {
	if req.ToolUseID == "" {
		req.ToolUseID = "spawn-" + req.ID
	}
	reply := session.SpawnReply{ChildID: req.ID, ToolUseID: req.ToolUseID, Depth: r.depth() + 1}
	if r.hasChild(req.ID) {
		return reply, nil
	}
	msg, err := withID(ctx, req.Message)
	if err != nil {
		return reply, err
	}
	in := r.childInput(ctx, req, msg)
	k := &child{}
	k.ctx, k.cancel = workflow.WithCancel(r.ctx)
	r.children[req.ID] = k
	r.st.Children = append(r.st.Children, session.Child{SessionID: req.ID, ToolUseID: req.ToolUseID, Agent: in.Options.Agent})
	// subagent:spawned must be in the stream before the child lives.
	said := r.notify(event.SubagentSpawned{
		ToolUseID: req.ToolUseID, AgentID: req.ID, ChildSessionID: req.ID, Prompt: msg.Text,
		SubagentType: in.Options.Agent, Description: req.Description,
	})
	if err := workflow.Await(ctx, func() bool { return said.done }); err != nil {
		return reply, err
	}
	if r.closing != "" {
		r.childGone(ctx, req, session.Output{}, session.ErrClosed)
		return reply, session.ToTemporal(session.ErrClosed)
	}
	return reply, r.startChild(ctx, req, in)
}

// child is the workflow of a child.
type child struct {
	ctx    workflow.Context
	cancel workflow.CancelFunc
	// future is nil until the child is being started.
	future workflow.ChildWorkflowFuture
	gone   bool
}

func (r *run) hasChild(id string) bool {
	return slices.ContainsFunc(r.st.Children, func(c session.Child) bool { return c.SessionID == id })
}

func (r *run) childInput(ctx workflow.Context, req session.SpawnRequest, msg session.Message) session.Input {
	opts := r.inherit(req.Options)
	if opts.Title == "" {
		opts.Title = titleOf(msg.Text)
	}
	return session.Input{
		SessionID: req.ID, Version: session.StateVersion, Options: opts, CreatedAt: workflow.Now(ctx), First: &msg,
		Parent: &session.Parent{SessionID: r.in.SessionID, Root: r.root(), Depth: r.depth() + 1, ToolUseID: req.ToolUseID},
	}
}

func (r *run) startChild(ctx workflow.Context, req session.SpawnRequest, in session.Input) error {
	k := r.children[req.ID]
	cctx := workflow.WithChildOptions(k.ctx, childOptions(req.ID, in.Options.Title))
	k.future = workflow.ExecuteChildWorkflow(cctx, session.WorkflowType, in)
	started := k.future.GetChildWorkflowExecution().Get(ctx, nil)
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		var out session.Output
		err := k.future.Get(ctx, &out)
		r.childGone(ctx, req, out, err)
	})
	if started != nil {
		if temporal.IsWorkflowExecutionAlreadyStartedError(started) {
			return session.ToTemporal(session.Invalid("id", fmt.Sprintf("%q is taken", req.ID), "an id that no session has"))
		}
		return fmt.Errorf("session %s: spawn %s: %w", r.in.SessionID, req.ID, started)
	}
	return nil
}

// childGone removes a child from the list on any end and announces how it ended.
func (r *run) childGone(ctx workflow.Context, req session.SpawnRequest, out session.Output, err error) {
	r.children[req.ID].gone = true
	delete(r.children, req.ID)
	r.st.CostUSD = event.AddCost(r.st.CostUSD, out.CostUSD)
	r.notify(childEnd(req, out, err))
	r.st.Children = slices.DeleteFunc(r.st.Children, func(c session.Child) bool { return c.SessionID == req.ID })
	r.publish()
}

// wholeOrNamed is a child's answer, which names where the rest of a cut one is.
func wholeOrNamed(r event.QueryResult, child string) string {
	if !r.Truncated {
		return r.Response
	}
	return fmt.Sprintf("%s\n[truncated: the whole answer is block %s of session %s]", r.Response, r.ResponseBlockID, child)
}

func childEnd(req session.SpawnRequest, out session.Output, err error) event.SubagentCompleted {
	end := event.SubagentCompleted{
		ToolUseID: req.ToolUseID, AgentID: req.ID, ChildSessionID: req.ID, Status: event.SubagentCompletedOK,
	}
	switch {
	case err != nil:
		end.Status, end.Output = event.SubagentFailed, event.Text(err.Error())
	case out.Failure != nil:
		end.Status, end.Output = event.SubagentFailed, event.Text(out.Failure.Message)
	case out.Last != nil && out.Outcome != session.Interrupted:
		end.Output = event.Text(wholeOrNamed(*out.Last, req.ID))
	default:
		end.Status, end.Output = event.SubagentFailed, event.Text("ended without an answer")
	}
	return end
}

// childOptions: a parent that is gone closes its children; one that closes them
// waits until they are; a child's id is used once.
func childOptions(id, title string) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		WorkflowTaskTimeout:   session.WorkflowTaskTimeout,
		TaskQueue:             session.TaskQueue,
		WaitForCancellation:   true,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         title,
	}
}
