package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/modelsim"
	"github.com/sojourn-run/sojourn/test/skip"
)

// requestsOf counts the model's requests in the session whose prompts contain a word.
func requestsOf(t *testing.T, word string) int {
	t.Helper()
	n := 0
	for _, s := range spaceOf(t).Model.Stats().Sessions {
		if slices.ContainsFunc(s.Prompts, func(p modelsim.PromptStats) bool { return strings.Contains(p.Text, word) }) {
			n += s.Requests
		}
	}
	return n
}

// ownWord returns a word that no other session uses.
func ownWord() string { return "w" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// requireDense checks that every sequence number occurs once, in order, and that every
// message is answered once.
func requireDense(t *testing.T, h *session.Handle) []event.Event {
	t.Helper()
	all := events(t, h)
	for i, ev := range all {
		require.Equal(t, uint64(i+1), ev.Context.Seq)
	}
	ids := answered(t, h)
	slices.Sort(ids)
	require.Equal(t, slices.Compact(slices.Clone(ids)), ids, "a message is answered once")
	return all
}

// requireNothingLeft checks that the host has no process and no sandbox of the session,
// and no data about one.
func requireNothingLeft(t *testing.T, w *worker, h *session.Handle) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool {
		for _, pattern := range []string{"sandboxes/" + h.ID() + "-*", "bookmarks/" + h.ID() + "-*"} {
			found, err := filepath.Glob(filepath.Join(w.dataDir, pattern))
			require.NoError(c, err)
			require.Empty(c, found)
		}
		attempts, err := filepath.Glob(filepath.Join(w.dataDir, "attempts", "*"))
		require.NoError(c, err)
		for _, path := range attempts {
			// The file may be removed in between: then it is no attempt's any more.
			data, _ := os.ReadFile(path)
			require.NotContains(c, string(data), h.ID(), path)
		}
		return true
	}, patience, tick)
	require.Empty(t, processesOf(t, w, h))
}

// processesOf returns the processes of a session's sandboxes.
func processesOf(t *testing.T, w *worker, h *session.Handle) (pids []int) {
	t.Helper()
	all, err := harness.Agents(w.dataDir)
	require.NoError(t, err)
	for _, pid := range all {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte(h.ID())) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitClosed waits for the session's last event.
func awaitClosed(t *testing.T, h *session.Handle, reason string) {
	t.Helper()
	for ev, err := range h.Events(testContext(t), 0, session.Follow) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(event.SessionClosed); ok && p.Reason == reason {
			return
		}
	}
	t.Fatal("the stream ended without session:closed " + reason)
}

// terminated returns the text of the system blocks that name the pending messages of a
// terminated session.
func terminated(t *testing.T, all []event.Event) string {
	t.Helper()
	var texts []string
	for _, p := range payloads[event.BlockUpsert](all) {
		if p.Block.Subtype == "terminated" {
			require.Equal(t, event.BlockSystem, p.Block.Type)
			texts = append(texts, *p.Block.Message)
		}
	}
	require.Len(t, texts, 1)
	return texts[0]
}

// buttonAgents runs a test for each agent on which the operator's buttons are tested.
func buttonAgents(t *testing.T, test func(t *testing.T, agent string)) {
	t.Helper()
	for _, agent := range []string{"claude", "codex"} {
		t.Run(agent, func(t *testing.T) {
			inParallel(t)
			test(t, agent)
		})
	}
}

// TestButtonsTerminate terminates in the middle of a turn, with a queued message. The
// sandbox is ended, what was streamed is archived, both messages fail by name, and the
// session can be reopened.
func TestButtonsTerminate(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	t.Run("in a turn", func(t *testing.T) {
		buttonAgents(t, func(t *testing.T, agent string) {
			ctx, own := testContext(t), ownWord()
			h := open(t, session.Options{Agent: agent})
			require.NoError(t, say(t, h, "SAY remember the word "+own).Err())
			running, gate := sendToGate(ctx, t, h, "SAY about to end THEN TOOL bash: echo done THEN ")
			defer spaceOf(t).Model.Open(gate)
			waiting, err := h.Send(ctx, session.Message{Text: "SAY never"})
			require.NoError(t, err)
			before := requestsOf(t, own)
			require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, h.ID(), "", "an operator"))

			awaitClosed(t, h, "terminated")
			for _, r := range []session.Receipt{running, waiting} {
				res, err := h.Wait(ctx, r)
				require.NoError(t, err)
				require.Equal(t, session.Failed, res.Outcome)
				require.Equal(t, session.TypeTerminated, res.Error.Code)
			}
			said := terminated(t, requireDense(t, h))
			require.Contains(t, said, running.MessageID)
			require.Contains(t, said, waiting.MessageID)
			requireNothingLeft(t, w, h)
			requireSame(t, h.ID())
			require.Equal(t, before, requestsOf(t, own), "the model was asked nothing more")
			require.NoError(t, h.Close(ctx))

			again, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
			require.NoError(t, err)
			require.Contains(t, say(t, again, "RECALL").Result.Response, own)
			require.NoError(t, again.Close(ctx))
			requireSame(t, h.ID())
			requireDense(t, h)
		})
	})
	t.Run("at rest", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		h := open(t, session.Options{})
		require.NoError(t, say(t, h, "SAY at rest").Err())
		awaitIdle(t, h)
		require.NoError(t, h.Queue(ctx, session.Message{ID: "held-" + h.ID(), Text: "SAY held"}))
		eventually(t, func(c *assert.CollectT) bool {
			s, err := h.Snapshot(ctx)
			require.NoError(c, err)
			return len(s.Queued) == 1
		}, patience, tick)
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, h.ID(), "", "an operator"))
		// No worker is running that could notice; reopening does.
		again, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
		require.NoError(t, err)
		require.Contains(t, say(t, again, "RECALL").Result.Response, "at rest")
		require.Contains(t, terminated(t, requireDense(t, h)), "held-"+h.ID())
		require.NoError(t, again.Close(ctx))
		requireNothingLeft(t, w, h)
		requireParity(t, h.ID())
	})
	t.Run("never begun", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		h := open(t, session.Options{})
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, h.ID(), "", "an operator"))
		require.NoError(t, spaceOf(t).Temporal.ScheduleClient().GetHandle(ctx, session.ReconcilerSchedule).Trigger(ctx, client.ScheduleTriggerOptions{}))
		awaitClosed(t, h, "terminated")
		terminated(t, requireDense(t, h))
	})
}

// resetTo resets a session to before the workflow task that point picks from its
// history.
func resetTo(ctx context.Context, t *testing.T, id string, point func(*historypb.History) int64) string {
	t.Helper()
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	run := d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	h := &historypb.History{}
	for it := spaceOf(t).Temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		ev, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, ev)
	}
	at := point(h)
	require.NotZero(t, at)
	reply, err := spaceOf(t).Temporal.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: spaceOf(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run},
		Reason: "an operator", WorkflowTaskFinishEventId: at, RequestId: uuid.NewString(),
	})
	require.NoError(t, err)
	return reply.GetRunId()
}

func lastTask(h *historypb.History) (at int64) {
	for _, ev := range h.Events {
		if ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			at = ev.GetEventId()
		}
	}
	return at
}

func firstTask(h *historypb.History) int64 {
	return taskBefore(h, func(*historypb.HistoryEvent) bool { return true })
}

// taskBefore returns the first completed workflow task after an event that fits.
func taskBefore(h *historypb.History, fits func(*historypb.HistoryEvent) bool) int64 {
	met := false
	for _, ev := range h.Events {
		met = met || fits(ev)
		if met && ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return ev.GetEventId()
		}
	}
	return 0
}

// scheduling returns the task that scheduled the nth activity of a kind.
func scheduling(kind string, n int) func(*historypb.History) int64 {
	return func(h *historypb.History) int64 {
		met := 0
		for _, ev := range h.Events {
			a := ev.GetActivityTaskScheduledEventAttributes()
			if a.GetActivityType().GetName() != kind {
				continue
			}
			if met++; met == n {
				return a.GetWorkflowTaskCompletedEventId()
			}
		}
		return 0
	}
}

// TestButtonsReset resets to any point, of an idle session and in a turn. Nothing is
// run twice, no false event is emitted, the session continues, and it can be closed.
func TestButtonsReset(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	points := map[string]func(*historypb.History) int64{
		"the last task": lastTask, "its beginning": firstTask, "before the sandbox": scheduling("CreateSandbox", 1),
		"before a finished turn": scheduling("RunTurn", 2), "before the first turn": scheduling("RunTurn", 1),
	}
	for name, point := range points {
		t.Run("at rest to "+name, func(t *testing.T) {
			if name != "before a finished turn" {
				skip.InShort(t, "of the points, the one before a finished turn")
			}
			inParallel(t)
			resetAtRest(t, w, "claude", point)
		})
		t.Run("in a turn to "+name, func(t *testing.T) {
			if name != "before a finished turn" {
				skip.InShort(t, "of the points, the one before a finished turn")
			}
			inParallel(t)
			resetInATurn(t, w, "claude", point)
		})
	}
	t.Run("codex", func(t *testing.T) {
		inParallel(t)
		resetAtRest(t, w, "codex", scheduling("RunTurn", 1))
		resetInATurn(t, w, "codex", scheduling("CreateSandbox", 1))
	})
}

func resetAtRest(t *testing.T, w *worker, agent string, point func(*historypb.History) int64) {
	t.Helper()
	ctx, own := testContext(t), ownWord()
	h := open(t, session.Options{Agent: agent})
	for _, text := range []string{"SAY remember the word " + own, "SAY two", "SAY three"} {
		require.NoError(t, say(t, h, text).Err())
	}
	awaitIdle(t, h)
	before, asks := len(events(t, h)), requestsOf(t, own)
	resetTo(ctx, t, h.ID(), point)

	res := say(t, h, "RECALL")
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, own)
	requireGoesOn(t, w, h, own, asks+1, 4)
	require.Empty(t, payloads[event.QueryFailed](events(t, h)[before:]))
}

func resetInATurn(t *testing.T, w *worker, agent string, point func(*historypb.History) int64) {
	t.Helper()
	ctx, own := testContext(t), ownWord()
	h := open(t, session.Options{Agent: agent})
	for _, text := range []string{"SAY remember the word " + own, "SAY two"} {
		require.NoError(t, say(t, h, text).Err())
	}
	r, gate := sendToGate(ctx, t, h, "SAY in the middle THEN ")
	waiting, err := h.Send(ctx, session.Message{Text: "SAY waited"})
	require.NoError(t, err)
	asks := requestsOf(t, own)
	resetTo(ctx, t, h.ID(), point)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.Equal(t, "waited", answeredWell(ctx, t, h, waiting).Result.Response)
	requireGoesOn(t, w, h, own, asks+1, 4)
}

// requireGoesOn checks that a session that was reset has so many turns and requests,
// equals its restored conversation, and closes.
func requireGoesOn(t *testing.T, w *worker, h *session.Handle, own string, asks, turns int) {
	t.Helper()
	ctx := testContext(t)
	awaitIdle(t, h)
	s, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, turns, s.Turns)
	require.NoError(t, h.Close(ctx))
	s, err = h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, session.StatusClosed, s.Status)
	all := requireDense(t, h)
	require.IsType(t, event.SessionClosed{}, last(all).Payload)
	require.Len(t, payloads[event.QueryStarted](all), turns)
	require.Len(t, payloads[event.QueryCompleted](all), turns)
	require.Len(t, payloads[event.SessionInitialized](all), 1)
	require.Empty(t, payloads[event.EEError](all))
	for _, p := range payloads[event.BlockUpsert](all) {
		require.NotEqual(t, event.BlockError, p.Block.Type, "%v", p.Block.Message)
		require.NotEqual(t, event.BlockSystem, p.Block.Type, "%v", p.Block.Message)
	}
	requireNothingLeft(t, w, h)
	requireParity(t, h.ID())
	require.Equal(t, asks, requestsOf(t, own), "the model was asked as often as without a reset")
}

// TestButtonsResetAClosedSession: the session is open again, with its whole
// conversation.
func TestButtonsResetAClosedSession(t *testing.T) {
	skip.InShort(t, "TestButtonsReset resets too")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word medlar").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Close(ctx))
	// What the operator wants undone must not happen again.
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, h.ID(), "")
	require.NoError(t, err)
	run := d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	var at int64
	for it := spaceOf(t).Temporal.GetWorkflowHistory(ctx, h.ID(), run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		ev, err := it.Next()
		require.NoError(t, err)
		if a := ev.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a.GetAcceptedRequest().GetInput().GetName() == session.UpdateClose {
			break
		}
		if ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			at = ev.GetEventId()
		}
	}
	_, err = spaceOf(t).Temporal.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: spaceOf(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: h.ID(), RunId: run},
		Reason: "an operator", WorkflowTaskFinishEventId: at, RequestId: uuid.NewString(),
		ResetReapplyExcludeTypes: []enumspb.ResetReapplyExcludeType{enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE},
	})
	require.NoError(t, err)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "medlar")
	require.NoError(t, h.Close(ctx))
	requireDense(t, h)
	requireNothingLeft(t, w, h)
	requireParity(t, h.ID())
}

// TestButtonsCancel: cancelling is a close. The turn is interrupted, queued messages
// fail by name, and nothing is left.
func TestButtonsCancel(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	buttonAgents(t, func(t *testing.T, agent string) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: agent})
		running, gate := sendToGate(ctx, t, h, "SAY before THEN ")
		defer spaceOf(t).Model.Open(gate)
		waiting, err := h.Send(ctx, session.Message{Text: "SAY never"})
		require.NoError(t, err)
		require.NoError(t, spaceOf(t).Temporal.CancelWorkflow(ctx, h.ID(), ""))
		awaitClosed(t, h, "cancelled")
		res, err := h.Wait(ctx, running)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Outcome)
		res, err = h.Wait(ctx, waiting)
		require.NoError(t, err)
		require.Equal(t, session.TypeClosed, res.Error.Code)
		requireDense(t, h)
		requireNothingLeft(t, w, h)
		requireSame(t, h.ID())
	})
}
