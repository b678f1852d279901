package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/session"
)

// Reconcile cleans up behind a session whose workflow was ended from outside:
// the agent is stopped and what it said is archived, the sandbox is ended, and
// what was accepted and not answered is failed by name. A session that was
// reopened since is left alone.
func Reconcile(ctx workflow.Context, in session.Dead) error {
	var dead activities.DeadOutput
	light := workflow.WithActivityOptions(ctx, writeOptions)
	if err := workflow.ExecuteActivity(light, activities.NameLookAtDead, in).Get(light, &dead); err != nil {
		return fmt.Errorf("look at session %s: %w", in.SessionID, err)
	}
	if !dead.Dead {
		return nil
	}
	words := activities.EpitaphInput{Dead: in, Why: dead.Why, Remains: dead.Remains}
	if dead.Remains.Sandbox != nil {
		words.Lost = !endRemains(ctx, dead)
	}
	if err := workflow.ExecuteActivity(light, activities.NameEpitaph, words).Get(light, nil); err != nil {
		return fmt.Errorf("write the epitaph of session %s: %w", in.SessionID, err)
	}
	return nil
}

// endRemains ends what runs for a dead session, and says whether its host did
// that. A host that is gone has lost it.
func endRemains(ctx workflow.Context, dead activities.DeadOutput) bool {
	rem := dead.Remains
	if rem.Running != nil {
		tctx := workflow.WithActivityOptions(ctx, turnOptions(rem.Sandbox.Host))
		err := workflow.ExecuteActivity(tctx, activities.NameRunTurn, abandonment(dead)).Get(tctx, nil)
		if hostLost(err) {
			return false
		}
		if err != nil {
			workflow.GetLogger(ctx).Info("there was no turn to end", "session", rem.Agent.SessionID, "error", err)
		}
	}
	ectx := workflow.WithActivityOptions(ctx, endOptions(rem.Sandbox.Host))
	err := workflow.ExecuteActivity(ectx, activities.NameEndSandbox, activities.EndSandboxInput{
		Agent: rem.Agent, Sandbox: *rem.Sandbox, Reason: "terminated", LastSeq: rem.Record.LastSeq,
	}).Get(ectx, nil)
	if err != nil && !hostLost(err) {
		// It is fenced off: the sweep of its host ends it.
		workflow.GetLogger(ctx).Error("the sandbox of a dead session could not be ended", "session", rem.Agent.SessionID, "error", err)
	}
	return err == nil
}

// abandonment takes the running turn up to end it.
func abandonment(dead activities.DeadOutput) activities.RunTurnInput {
	rem := dead.Remains
	in := activities.RunTurnInput{
		Agent: rem.Agent, Sandbox: *rem.Sandbox, ExecutionID: rem.Running.ExecutionID, Turn: rem.Turn,
		Message: session.Message{ID: rem.Running.MessageID}, Anchor: rem.Record.LastBlockID, LastSeq: rem.Record.LastSeq,
		Abandoned: dead.Why,
	}
	if s := rem.Since; s != nil {
		in.AfterSeq, in.Anchor = s.AfterSeq, s.Anchor
	}
	return in
}

// Reconciler has every session cleaned up that was ended from outside since its
// last run. The schedule runs it; what it gives is where the next run begins.
func Reconciler(ctx workflow.Context) (time.Time, error) {
	var in activities.FindDeadInput
	if workflow.HasLastCompletionResult(ctx) {
		if err := workflow.GetLastCompletionResult(ctx, &in.After); err != nil {
			// Then all are looked at.
			workflow.GetLogger(ctx).Warn("what the run before said can't be read", "error", err)
		}
	}
	ctx = workflow.WithActivityOptions(ctx, findOptions)
	var out activities.FindDeadOutput
	err := workflow.ExecuteActivity(ctx, activities.NameFindDead, in).Get(ctx, &out)
	if err != nil {
		return time.Time{}, fmt.Errorf("find dead sessions: %w", err)
	}
	return out.Next, nil
}

// findOptions: the list of what died within a minute is short; after a long
// outage it may not be. What is not done the next run does.
var findOptions = workflow.ActivityOptions{
	TaskQueue:           session.TaskQueue,
	StartToCloseTimeout: 5 * time.Minute,
	RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 3},
}

// remains is what a run leaves that is ended from outside.
func (r *run) remains() (activities.Remains, error) {
	rem := activities.Remains{
		Agent: r.agent(), Record: r.record(), Sandbox: r.st.Sandbox, Turn: r.nextTurn() + 1, Unlisted: r.in.Unlisted(),
	}
	if r.cur != nil {
		o := owed(r.cur.queued)
		rem.Running = &o
		if run := r.running; run != nil && run.MessageID == o.MessageID {
			rem.Since = run
		}
	}
	for _, q := range r.st.Queue {
		rem.Waiting = append(rem.Waiting, owed(q))
	}
	return rem, nil
}

func owed(q session.Queued) activities.Owed {
	return activities.Owed{ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Title: headline(q.Message.Text)}
}
