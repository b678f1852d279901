package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/workflows"
)

// warmTurnLimit is law L6: the history events from send (an update) to idle, with those
// of the idle timer and search attributes.
const warmTurnLimit = 16

// TestWarmTurnHistory counts the history events of a warm turn: the same few whether
// the agent streamed two deltas or twenty thousand (in a short run, five thousand).
func TestWarmTurnHistory(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY the sandbox is warm now").Err())
	awaitIdle(t, h)
	many := "DELTAS 20000"
	if testing.Short() {
		many = "DELTAS 5000"
	}
	few := warmTurn(t, h, "SAY two deltas")
	require.LessOrEqual(t, few, warmTurnLimit)
	require.Equal(t, few, warmTurn(t, h, many), "history must not grow with the agent's output")
}

// warmTurn returns how many history events a turn has. A turn whose heartbeats a stalled
// machine lost is taken over and says once more what it waits for: it is asked again.
func warmTurn(t *testing.T, h *session.Handle, text string) int {
	t.Helper()
	for ctx := testContext(t); ctx.Err() == nil; {
		before := history(t, h)
		require.NoError(t, say(t, h, text).Err())
		awaitIdle(t, h)
		after := history(t, h)
		added := effective(after)[len(effective(before)):]
		t.Logf("%s: %d events: %s", text, len(added), strings.Join(added, ", "))
		if !takenOver(after[len(before):]) {
			return len(added)
		}
	}
	t.Fatalf("%s: no turn of one attempt within %v", text, patience)
	return 0
}

// takenOver reports whether a turn's activity was tried more than once.
func takenOver(events []*historypb.HistoryEvent) bool {
	return slices.ContainsFunc(events, func(ev *historypb.HistoryEvent) bool {
		return ev.GetActivityTaskStartedEventAttributes().GetAttempt() > 1
	})
}

// effective leaves out workflow tasks without effect: those that a worker on a stalled
// machine did not answer in time, and those for an update that the workflow did not
// accept. Of several in a row it keeps the last one, and none at the end.
func effective(events []*historypb.HistoryEvent) (out []string) {
	const ofOne = 3 // scheduled, started, completed
	var tasks []string
	for _, ev := range events {
		typ := ev.GetEventType().String()
		if strings.HasPrefix(typ, "WorkflowTask") {
			tasks = append(tasks, typ)
			continue
		}
		out = append(append(out, tasks[max(0, len(tasks)-ofOne):]...), typ)
		tasks = nil
	}
	return out
}

// history returns the session's history events.
func history(t *testing.T, h *session.Handle) []*historypb.HistoryEvent {
	t.Helper()
	var events []*historypb.HistoryEvent
	it := spaceOf(t).Temporal.GetWorkflowHistory(testContext(t), h.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		require.NoError(t, err)
		events = append(events, ev)
	}
	return events
}

// awaitIdle waits until the workflow has finished the turn, which is a moment after
// query:completed is in the stream. No timer runs if a host that was stalled has given the
// sandbox up since.
func awaitIdle(t *testing.T, h *session.Handle) {
	t.Helper()
	var types []string
	defer func() {
		if t.Failed() {
			t.Logf("the last events of its history: %v", types[max(0, len(types)-20):])
		}
	}()
	require.Eventually(t, func() bool {
		types = effective(history(t, h))
		return types[len(types)-1] == "TimerStarted" || isCold(t, h)
	}, patience, tick, "the idle timer ends a turn")
}

func isCold(t *testing.T, h *session.Handle) bool {
	t.Helper()
	i, err := h.Inspect(testContext(t))
	require.NoError(t, err)
	return i.Phase == "idle" && i.Sandbox == nil
}

// TestALongHistoryIsReplayed: what is recorded of a session's turns, over all runs of its
// workflow, replays with this build. With SOJOURN_LONG set the session has a thousand turns.
func TestALongHistoryIsReplayed(t *testing.T) {
	skip.InShort(t, "the recorded histories of each message are replayed beside the workflow")
	inOwnNamespace(t)
	startWorker(t)
	ctx, turns := testContext(t), 12
	if os.Getenv("SOJOURN_LONG") != "" {
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ctx, turns = long, 1000
	}
	h := open(t, session.Options{Agent: anyAgent(t)})
	for n := range turns {
		r, err := h.Send(ctx, session.Message{Text: fmt.Sprintf("SAY turn %d", n)})
		require.NoError(t, err)
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
	}
	require.NoError(t, h.Close(ctx))

	var runs []*workflowpb.WorkflowExecutionInfo
	require.Eventually(t, func() bool {
		found, err := spaceOf(t).Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s' AND CloseTime IS NOT NULL", h.ID())})
		runs = found.GetExecutions()
		return err == nil && slices.ContainsFunc(runs, func(r *workflowpb.WorkflowExecutionInfo) bool {
			return r.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		})
	}, patience, tick)
	o, err := session.WithPayloads(client.Options{}, spaceOf(t).Archive)
	require.NoError(t, err)
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{ExternalStorage: o.ExternalStorage})
	require.NoError(t, err)
	replayer.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: session.WorkflowType})
	events := int64(0)
	for _, run := range runs {
		events += run.GetHistoryLength()
		require.NoError(t, replayer.ReplayWorkflowExecution(ctx, spaceOf(t).Temporal.WorkflowService(), silent{}, spaceOf(t).Namespace,
			workflow.Execution{ID: h.ID(), RunID: run.GetExecution().GetRunId()}))
	}
	require.Greater(t, events, int64(10*turns))
	t.Logf("%d turns: %d events in %d runs", turns, events, len(runs))
}
