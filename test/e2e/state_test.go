package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// inList returns a session as `sojourn ls` lists it.
func inList(t *testing.T, id string) session.Summary {
	t.Helper()
	var all []session.Summary
	at := -1
	require.True(t, waits(func() bool {
		sojournJSON(t, &all, "ls", "--limit", "1000")
		at = slices.IndexFunc(all, func(s session.Summary) bool { return s.SessionID == id })
		return at >= 0
	}), "%s is not listed", id)
	return all[at]
}

// TestTheAnswerIsNotAheadOfTheState: after the answer the session is idle, its turn is
// counted, and the next call is not refused as too early.
func TestTheAnswerIsNotAheadOfTheState(t *testing.T) {
	skip.InShort(t, "TestWaitReturnsWhenTheSessionIsIdle is the same through the client")
	withClaude(t)
	onSharedHost(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	for i := 1; i <= 10; i++ {
		args := []string{"send", id, fmt.Sprintf("SAY answer %d", i), "--when-busy", "reject"}
		if i%2 == 0 {
			args = append(args, "--follow")
		}
		sojourn(t, args...)
		s := inList(t, id)
		require.Equal(t, session.StatusIdle, s.Status, "after answer %d", i)
		require.Equal(t, int64(i), s.Turns)
	}
	sojourn(t, "close", id)
}

// TestWaitReturnsWhenTheSessionIsIdle: the same through the Go client, also for a
// client that reads the answer in the events.
func TestWaitReturnsWhenTheSessionIsIdle(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	for i := 1; i <= 5; i++ {
		require.NoError(t, say(t, h, "SAY waited for").Err())
		s, err := h.Snapshot(ctx)
		require.NoError(t, err)
		require.Equal(t, session.StatusIdle, s.Status)
		require.Equal(t, 3*i-2, s.Turns)

		r, err := h.Send(ctx, session.Message{Text: fmt.Sprint("SAY read in the events ", i)})
		require.NoError(t, err)
		heardUntil(t, h, r.AfterSeq, answers(fmt.Sprint("read in the events ", i)))
		r, err = h.Send(ctx, session.Message{ID: uuid.NewString(), Text: "SAY not too early", WhenBusy: session.BusyReject})
		require.NoError(t, err)
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
	}
	_, gate := sendToGate(ctx, t, h, "")
	_, err := h.Send(ctx, session.Message{Text: "SAY too early", WhenBusy: session.BusyReject})
	require.ErrorIs(t, err, session.ErrBusy)
	spaceOf(t).Model.Open(gate)
	require.NoError(t, h.Close(ctx))
}

// TestAnApprovalIsWaitedFor: a session that waits for a person is shown as waiting
// everywhere, from its first turn on, and with what it waits for.
func TestAnApprovalIsWaitedFor(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch allowed.txt")
	now := inspectUntil(ctx, t, h, func(i session.Inspection) bool { return i.Status == session.StatusWaiting })
	require.Equal(t, []string{asked.RequestID}, now.Pending)
	require.Equal(t, "waiting", now.Phase)
	var s session.Summary
	require.Eventually(t, func() bool { s = inList(t, h.ID()); return s.Status == session.StatusWaiting }, patience, tick)
	require.Equal(t, now.Sandbox.Host, s.Host, "in a first turn too")
	require.False(t, s.LastActivity.IsZero())
	require.Eventually(t, func() bool {
		return slices.Contains(listed(t, session.ListOptions{Query: "SojournStatus = 'waiting'"}), h.ID())
	}, patience, tick)
	answer := runProgram(t, "sojourn", "", nil, "respond", h.ID(), asked.RequestID, "allow")
	require.Zero(t, answer.code, answer.err)
	require.Contains(t, answer.err, "touch allowed.txt", "what is answered is shown first")
	now, err := h.Inspect(ctx)
	require.NoError(t, err)
	require.NotEqual(t, session.StatusWaiting, now.Status)
	require.Empty(t, now.Pending)
	answeredWell(ctx, t, h, r)
	require.Equal(t, session.Completed, inList(t, h.ID()).Outcome)

	r, _ = asksFor(t, h, "TOOL bash: touch never.txt")
	sojourn(t, "interrupt", h.ID())
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Regexp(t, h.ID()+`.* idle \(interrupted\) `, sojourn(t, "ls", "--limit", "1000"))
	require.NoError(t, h.Close(ctx))
}

// TestAWaitingSessionOutlivesItsWorker: the next worker neither forgets nor invents an
// open request.
func TestAWaitingSessionOutlivesItsWorker(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch allowed.txt")
	require.NoError(t, w.stop())
	startWorkerIn(t, w.dataDir)
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true}))
	answeredWell(ctx, t, h, r)
	require.NotEqual(t, session.StatusWaiting, inList(t, h.ID()).Status)
	// Wait returns without the workflow's answer after 10 s (decision 0019), which its
	// steps may take here: Temporal offers them to the stopped worker first.
	require.Eventually(t, func() bool { return inList(t, h.ID()).Status == session.StatusIdle }, patience, tick)
	require.NoError(t, h.Close(ctx))
}

// TestAFailedTurnIsInTheList: the list has the last turn's outcome until the next one
// ends.
func TestAFailedTurnIsInTheList(t *testing.T) {
	onSharedHost(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	sent := runProgram(t, "sojourn", "", nil, "send", id, "ERR400")
	require.Equal(t, 1, sent.code)
	require.Equal(t, session.Failed, inList(t, id).Outcome, sent.err)
	require.Regexp(t, id+`.* idle \(failed\) `, sojourn(t, "ls", "--limit", "1000"))
	require.Eventually(t, func() bool {
		return slices.Contains(listed(t, session.ListOptions{Query: "SojournOutcome = 'failed'"}), id)
	}, patience, tick)
	sojourn(t, "send", id, "SAY better")
	require.Equal(t, session.Completed, inList(t, id).Outcome)
	require.Eventually(t, func() bool {
		return !strings.Contains(sojourn(t, "ls", "--limit", "1000", "--query", "SojournOutcome = 'failed'"), id)
	}, patience, tick, "a query is the index's own, which may be behind")
	sojourn(t, "close", id)
}

// TestANewerStateIsRefusedAtOnce: a build that is older than a session's state returns
// an error that says so, and leaves the session as it is.
func TestANewerStateIsRefusedAtOnce(t *testing.T) {
	skip.InShort(t, "TestARollbackIsRefusedAtOnce has an older build too")
	onSharedHost(t)
	ctx := testContext(t)
	id := uuid.NewString()
	run, err := spaceOf(t).Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: session.TaskQueue}, session.WorkflowType,
		session.Input{SessionID: id, Version: session.StateVersion + 1, Options: session.Options{Agent: "claude"}, CreatedAt: time.Now()})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(context.Background(), id, run.GetRunID(), "the test is over"))
	})
	for _, args := range [][]string{{"close", id}, {"send", id, "SAY never"}} {
		s := runProgram(t, "sojourn", "", nil, args...)
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, fmt.Sprintf("has state version %d, this build understands %d", session.StateVersion+1, session.StateVersion))
		require.Contains(t, s.err, "hint: run workers of the build that the session ran on last")
	}
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus())
}

// TestARollbackIsRefusedAtOnce: callers get an error that names a worker whose build
// can't replay a session's history. With the newer build back nothing is lost.
func TestARollbackIsRefusedAtOnce(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY before the rollback").Err())
	require.NoError(t, w.stop())
	older := sdkworker.New(spaceOf(t).Temporal, session.TaskQueue, sdkworker.Options{Identity: "older-build"})
	older.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ session.Input) error {
		if err := workflow.SetUpdateHandler(ctx, session.UpdateClose, func(workflow.Context) error { return nil }); err != nil {
			return err
		}
		return workflow.Sleep(ctx, time.Hour)
	}, workflow.RegisterOptions{Name: session.WorkflowType})
	require.NoError(t, older.Start())
	s := runProgram(t, "sojourn", "", nil, "close", h.ID())
	older.Stop()
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "worker older-build can't run the session")
	require.Contains(t, s.err, "[TMPRL1100]", "the SDK's code for a history that the code does not match")
	startWorkerIn(t, w.dataDir)
	eventually(t, func(c *assert.CollectT) bool {
		// Temporal pauses before it offers the failed task again.
		err := h.Close(ctx)
		if unserved, ok := errors.AsType[*session.UnservedError](err); ok {
			t.Log(unserved)
			return false
		}
		require.NoError(c, err)
		return true
	}, patience, tick)
	requireParity(t, h.ID())
}
