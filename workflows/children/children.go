// Package children has the start options of a child session and the events about it: pure
// rules of package workflows.
package children

import (
	"cmp"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// Inherit returns a child's options, with its parent's where they are empty. Model and
// profile are those of one agent, so another agent does not inherit them.
func Inherit(o, parent session.Options) session.Options {
	if o.Agent == "" {
		o.Agent = parent.Agent
		if o.Profile == "" {
			o.Profile = parent.Profile
		}
		if o.Model == "" {
			o.Model = parent.Model
		}
	}
	if o.Permission == "" {
		o.Permission = parent.Permission
	}
	if o.Permissions == nil {
		o.Permissions = parent.Permissions
	}
	if o.UnknownEffects == nil {
		o.UnknownEffects = parent.UnknownEffects
	}
	if o.PermissionDeadline == (permission.Deadline{}) {
		o.PermissionDeadline = parent.PermissionDeadline
	}
	o.Sandbox = cmp.Or(o.Sandbox, parent.Sandbox)
	o.Park = cmp.Or(o.Park, parent.Park)
	o.MaxTicks = cmp.Or(o.MaxTicks, parent.MaxTicks)
	if o.Tenant == "" {
		o.Tenant = parent.Tenant
	}
	return o
}

// Check returns an error for a child that a session can't have: an invalid one, or any if the
// session has used what its limits allow.
func Check(req session.SpawnRequest, sessionID string, parent session.Options, used limits.Used) error {
	if err := session.ValidateID("id", req.ID); err != nil {
		return err
	}
	if req.ID == sessionID {
		return session.Invalid("id", fmt.Sprintf("%q is the spawning session itself", req.ID), "an id of its own")
	}
	if reached := parent.Limits.Reached(used); reached != "" {
		return session.Invalid("limits", "of the spawning session: "+reached, "a higher limit: sojourn configure")
	}
	if err := Inherit(req.Options, parent).Validate(); err != nil {
		return err
	}
	return req.Validate()
}

// Grant sets what a child may cost and how many tokens it may use, where its parent's limits
// bound that, and returns it. A child has what it asks for, as far as the remainder allows,
// and otherwise half of the remainder, so that the next one has something too. What it has not
// used is its parent's again when it closes.
func Grant(child *limits.Limits, parent limits.Limits, used limits.Used) (part limits.Limits) {
	if parent.CostUSD > 0 {
		left := parent.CostUSD
		if used.CostUSD != nil {
			left -= *used.CostUSD
		}
		part.CostUSD = partOf(left, child.CostUSD, 1e-6)
		child.CostUSD = part.CostUSD
	}
	if parent.Tokens > 0 {
		part.Tokens = partOf(parent.Tokens-used.Tokens, child.Tokens, 1)
		child.Tokens = part.Tokens
	}
	return part
}

// partOf returns a child's part of the remainder. asked is 0 for a child without a limit of its
// own. The part is never less than least, as 0 would be no limit.
func partOf[N int64 | float64](left, asked, least N) N {
	left = max(left, least)
	if asked == 0 {
		asked = max(left/2, least)
	}
	return min(asked, left)
}

// Charge returns the output of an ended child with what its parent's limits are charged. A
// child that was ended from outside reports nothing: all that it was granted counts then,
// because it may have used that.
func Charge(c session.Child, out session.Output, err error) session.Output {
	if err == nil || c.RunID == "" {
		return out
	}
	if c.GrantUSD > 0 {
		out.CostUSD = &c.GrantUSD
	}
	out.Tokens = c.GrantTokens
	return out
}

// New returns a child with its inherited options and its part of its parent's limits.
func New(req session.SpawnRequest, o session.Options, part limits.Limits) session.Child {
	return session.Child{
		SessionID: req.ID, ToolUseID: req.ToolUseID, Agent: o.Agent, Shares: o.Sandbox == session.SandboxParent,
		GrantUSD: part.CostUSD, GrantTokens: part.Tokens,
	}
}

// Spawned returns the event about a child that is about to be started.
func Spawned(c session.Child, req session.SpawnRequest) event.SubagentSpawned {
	return event.SubagentSpawned{
		ToolUseID: c.ToolUseID, AgentID: c.SessionID, ChildSessionID: c.SessionID, Prompt: req.Message.Text,
		SubagentType: c.Agent, Description: req.Description,
	}
}

// Completed returns the event about a child's end.
func Completed(c session.Child, out session.Output, err error) event.SubagentCompleted {
	end := event.SubagentCompleted{
		ToolUseID: c.ToolUseID, AgentID: c.SessionID, ChildSessionID: c.SessionID, Status: event.SubagentCompletedOK,
	}
	if err == nil {
		end.Usage = &out.Usage
	}
	switch {
	case err != nil:
		end.Status, end.Output = event.SubagentFailed, new(why(err))
	case out.Failure != nil:
		end.Status, end.Output = event.SubagentFailed, new(out.Failure.Message)
	case out.Last != nil && out.Outcome != session.Interrupted:
		end.Output = new(wholeOrNamed(*out.Last, c.SessionID))
	default:
		end.Status, end.Output = event.SubagentFailed, new("ended without an answer")
	}
	return end
}

// why returns the reason of a child's end as text. Temporal's own messages name the child's
// workflow or the activity that waited for it.
func why(err error) string {
	var app *temporal.ApplicationError
	var ended *temporal.ChildWorkflowExecutionError
	switch {
	case errors.As(err, &app):
		return app.Message()
	case errors.As(err, &ended):
		return session.TerminationIn(ended).Sentence()
	}
	return err.Error()
}

// wholeOrNamed returns a child's answer; a truncated one names where the rest is.
func wholeOrNamed(r event.QueryResult, child string) string {
	if !r.Truncated {
		return r.Response
	}
	return fmt.Sprintf("%s\n[truncated: the whole answer is block %s of session %s]", r.Response, r.ResponseBlockID, child)
}

// Options returns the options of a child's workflow. It outlives the run of its parent that
// started it; the parent closes it, or the cleanup after a terminated parent does. A
// child's id is used once.
func Options(in session.Input) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            in.SessionID,
		WorkflowTaskTimeout:   session.WorkflowTaskTimeout,
		TaskQueue:             session.TaskQueue,
		WaitForCancellation:   true,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         in.Options.Title,
		Memo:                  in.Memo(),
	}
}
