// Package reconcile has the workflows that clean up after sessions that were ended from
// outside.
package reconcile

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Session cleans up after a session whose workflow was ended from outside: the agent is
// stopped and its work is archived, the sandbox is ended, its children are asked to close,
// and what was accepted and not answered fails with a typed error. A session that was reopened
// since is left alone.
func Session(ctx workflow.Context, run session.TerminatedRun) error {
	var found contract.DescribeTerminatedOutput
	light := workflow.WithActivityOptions(ctx, timeouts.Write)
	if err := workflow.ExecuteActivity(light, contract.ActivityDescribeTerminated, run).Get(light, &found); err != nil {
		return fmt.Errorf("describe terminated session %s: %w", run.SessionID, err)
	}
	if found.Termination == "" {
		return nil
	}
	if children := found.State.Children; len(children) > 0 {
		in := contract.CancelChildrenInput{Parent: run.SessionID, Children: children}
		if err := workflow.ExecuteActivity(light, contract.ActivityCancelChildren, in).Get(light, nil); err != nil {
			return fmt.Errorf("close the children of terminated session %s: %w", run.SessionID, err)
		}
	}
	in := contract.RecordTerminationInput{Run: run, Termination: found.Termination, State: found.State}
	if found.State.Sandbox != nil {
		in.HostLost = !endTerminated(ctx, found)
	}
	if err := workflow.ExecuteActivity(light, contract.ActivityRecordTermination, in).Get(light, nil); err != nil {
		return fmt.Errorf("record the termination of session %s: %w", run.SessionID, err)
	}
	return nil
}

// endTerminated ends the turn and the sandbox of a terminated session, and reports whether
// the host did that. A host that does not answer has lost them.
func endTerminated(ctx workflow.Context, found contract.DescribeTerminatedOutput) bool {
	st := found.State
	if st.Running != nil {
		tctx := workflow.WithActivityOptions(ctx, timeouts.Turn(st.Sandbox.Host))
		err := workflow.ExecuteActivity(tctx, contract.ActivityRunTurn, endTurnInput(found)).Get(tctx, nil)
		if timeouts.HostLost(err) {
			return false
		}
		if err != nil {
			workflow.GetLogger(ctx).Info("there was no turn to end", "session", st.Agent.SessionID, "error", err)
		}
	}
	ectx := workflow.WithActivityOptions(ctx, timeouts.End(st.Sandbox.Host))
	err := workflow.ExecuteActivity(ectx, contract.ActivityEndSandbox, contract.EndSandboxInput{
		Agent: st.Agent, Sandbox: *st.Sandbox, Reason: "terminated", LastSeq: st.Record.LastSeq,
	}).Get(ectx, nil)
	if err != nil && !timeouts.HostLost(err) {
		// It is fenced: the sweep of its host ends it.
		workflow.GetLogger(ctx).Error("the sandbox of a terminated session could not be ended", "session", st.Agent.SessionID, "error", err)
	}
	return err == nil
}

// endTurnInput resumes the running turn to end it.
func endTurnInput(found contract.DescribeTerminatedOutput) contract.RunTurnInput {
	st := found.State
	in := contract.RunTurnInput{
		Agent: st.Agent, Sandbox: *st.Sandbox, ExecutionID: st.Running.ExecutionID, Turn: st.Turn,
		Message: session.Message{ID: st.Running.MessageID}, Anchor: st.Record.LastBlockID, LastSeq: st.Record.LastSeq,
		Terminated: found.Termination,
	}
	if s := st.Since; s != nil {
		in.AfterSeq, in.Anchor = s.AfterSeq, s.Anchor
	}
	return in
}

// Scheduled starts the cleanup of every session that was ended from outside since its last
// run, and has idle sessions give up the sandboxes of lost hosts. The schedule runs it; it
// returns where the next run starts.
func Scheduled(ctx workflow.Context) (time.Time, error) {
	var in contract.ReconcileTerminatedInput
	if workflow.HasLastCompletionResult(ctx) {
		if err := workflow.GetLastCompletionResult(ctx, &in.After); err != nil {
			// Then all are checked.
			workflow.GetLogger(ctx).Warn("the result of the last run can't be read", "error", err)
		}
	}
	ctx = workflow.WithActivityOptions(ctx, timeouts.Find)
	var out contract.ReconcileTerminatedOutput
	err := workflow.ExecuteActivity(ctx, contract.ActivityReconcileTerminated, in).Get(ctx, &out)
	if err != nil {
		return time.Time{}, fmt.Errorf("reconcile terminated sessions: %w", err)
	}
	if err := workflow.ExecuteActivity(ctx, contract.ActivityEvictLost).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("lost hosts are looked for again by the next run", "error", err)
	}
	return out.Next, nil
}
