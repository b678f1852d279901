package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestButtonsPause: RunTurn releases the agent, which continues, and the next attempt
// catches up. A worker that is started meanwhile keeps the agent.
func TestButtonsPause(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	t.Run("and unpause", func(t *testing.T) {
		buttonAgents(t, func(t *testing.T, agent string) { pauseTurn(t, w, agent, unpause) })
	})
	t.Run("and reset the activity", func(t *testing.T) {
		inParallel(t)
		pauseTurn(t, w, "claude", resetActivity)
	})
}

// TestButtonsPauseOutlivesTheWorker: the agent of a paused turn survives for longer
// than a lease, whichever worker renews it, and is not asked again.
func TestButtonsPauseOutlivesTheWorker(t *testing.T) {
	skip.InShort(t, "TestButtonsPause pauses too")
	withClaude(t)
	inOwnNamespace(t)
	k := startKillable(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	own := ownWord()
	r, gate := sendToGate(ctx, t, h, "SAY "+own+" THEN ")
	asks := requestsOf(t, own)
	pause(ctx, t, h.ID())
	k.kill()
	since := time.Now()
	require.Eventually(t, func() bool { return time.Since(since) > host.DefaultLease+5*time.Second }, patience, tick)
	spaceOf(t).Model.Open(gate)
	unpause(ctx, t, h.ID())
	answeredWell(ctx, t, h, r)
	require.Equal(t, asks, requestsOf(t, own))
	require.NoError(t, h.Close(ctx))
	require.Empty(t, payloads[event.EEError](requireDense(t, h)))
	require.Equal(t, 0, last(restarts(t, h)))
	requireParity(t, h.ID())
}

// pause pauses the running turn.
func pause(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	_, err := spaceOf(t).Temporal.WorkflowService().PauseActivity(ctx, &workflowservice.PauseActivityRequest{
		Namespace: spaceOf(t).Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Reason: "an operator",
		Activity: &workflowservice.PauseActivityRequest_Type{Type: "RunTurn"},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		a := pendingTurn(ctx, t, id)
		return a.GetPaused() && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_PAUSED
	}, patience, tick, "the attempt lets go")
}

func pauseTurn(t *testing.T, w *worker, agent string, again func(context.Context, *testing.T, string)) {
	t.Helper()
	ctx, own := testContext(t), ownWord()
	h := open(t, session.Options{Agent: agent})
	require.NoError(t, say(t, h, "SAY remember the word "+own).Err())
	r, gate := sendToGate(ctx, t, h, "SAY paused THEN ")
	asks := requestsOf(t, own)
	pause(ctx, t, h.ID())
	spaceOf(t).Model.Open(gate)
	again(ctx, t, h.ID())
	answeredWell(ctx, t, h, r)
	requireGoesOn(t, w, h, own, asks, 2)
}

func unpause(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	_, err := spaceOf(t).Temporal.WorkflowService().UnpauseActivity(ctx, &workflowservice.UnpauseActivityRequest{
		Namespace: spaceOf(t).Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id},
		Activity: &workflowservice.UnpauseActivityRequest_Type{Type: "RunTurn"},
	})
	require.NoError(t, err)
}

func resetActivity(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	_, err := spaceOf(t).Temporal.WorkflowService().ResetActivity(ctx, &workflowservice.ResetActivityRequest{
		Namespace: spaceOf(t).Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id},
		Activity: &workflowservice.ResetActivityRequest_Type{Type: "RunTurn"},
	})
	require.NoError(t, err)
}

// pendingTurn returns Temporal's description of the running turn, or nil.
func pendingTurn(ctx context.Context, t *testing.T, id string) *workflowpb.PendingActivityInfo {
	t.Helper()
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	for _, a := range d.GetPendingActivities() {
		if a.GetActivityType().GetName() == "RunTurn" {
			return a
		}
	}
	return nil
}
