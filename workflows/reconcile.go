package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

// Reconcile cleans up after a session whose workflow was ended from outside: the
// agent is stopped and what it did is archived, the sandbox is ended, and what was
// accepted and not answered fails by name. A session that was reopened since is
// left alone.
func Reconcile(ctx workflow.Context, run session.TerminatedRun) error {
	var found contract.DescribeTerminatedOutput
	light := workflow.WithActivityOptions(ctx, writeOptions)
	if err := workflow.ExecuteActivity(light, contract.ActivityDescribeTerminated, run).Get(light, &found); err != nil {
		return fmt.Errorf("describe terminated session %s: %w", run.SessionID, err)
	}
	if found.Termination == "" {
		return nil
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

// endTerminated ends the turn and the sandbox of a terminated session, and reports
// whether the host did that. A host that does not answer has lost them.
func endTerminated(ctx workflow.Context, found contract.DescribeTerminatedOutput) bool {
	st := found.State
	if st.Running != nil {
		tctx := workflow.WithActivityOptions(ctx, turnOptions(st.Sandbox.Host))
		err := workflow.ExecuteActivity(tctx, contract.ActivityRunTurn, endTurnInput(found)).Get(tctx, nil)
		if hostLost(err) {
			return false
		}
		if err != nil {
			workflow.GetLogger(ctx).Info("there was no turn to end", "session", st.Agent.SessionID, "error", err)
		}
	}
	ectx := workflow.WithActivityOptions(ctx, endOptions(st.Sandbox.Host))
	err := workflow.ExecuteActivity(ectx, contract.ActivityEndSandbox, contract.EndSandboxInput{
		Agent: st.Agent, Sandbox: *st.Sandbox, Reason: "terminated", LastSeq: st.Record.LastSeq,
	}).Get(ectx, nil)
	if err != nil && !hostLost(err) {
		// It is fenced off: the sweep of its host ends it.
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

// Reconciler starts the cleanup of every session that was ended from outside
// since its last run. The schedule runs it; it returns where the next run begins.
func Reconciler(ctx workflow.Context) (time.Time, error) {
	var in contract.ReconcileTerminatedInput
	if workflow.HasLastCompletionResult(ctx) {
		if err := workflow.GetLastCompletionResult(ctx, &in.After); err != nil {
			// Then all are looked at.
			workflow.GetLogger(ctx).Warn("the result of the last run can't be read", "error", err)
		}
	}
	ctx = workflow.WithActivityOptions(ctx, findOptions)
	var out contract.ReconcileTerminatedOutput
	err := workflow.ExecuteActivity(ctx, contract.ActivityReconcileTerminated, in).Get(ctx, &out)
	if err != nil {
		return time.Time{}, fmt.Errorf("reconcile terminated sessions: %w", err)
	}
	return out.Next, nil
}

// findOptions: the list of what ended within a minute is short; after a long
// outage it may not be. What is not done the next run does.
var findOptions = workflow.ActivityOptions{
	TaskQueue:           session.TaskQueue,
	StartToCloseTimeout: 5 * time.Minute,
	RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 3},
}

// finalState is what a run leaves that is ended from outside.
func (r *run) finalState() (contract.FinalState, error) {
	st := contract.FinalState{
		Agent: r.agent(), Record: r.record(), Sandbox: r.st.Sandbox, Turn: r.nextTurn() + 1, Unlisted: r.in.Unlisted(),
	}
	if r.cur != nil {
		m := pendingMessage(r.cur.queued)
		st.Running = &m
		if run := r.running; run != nil && run.MessageID == m.MessageID {
			st.Since = run
		}
	}
	for _, q := range r.st.Queue {
		st.Waiting = append(st.Waiting, pendingMessage(q))
	}
	return st, nil
}

func pendingMessage(q session.Queued) contract.PendingMessage {
	return contract.PendingMessage{ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Title: titleOf(q.Message.Text)}
}
