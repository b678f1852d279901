package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// hostOf returns the host of a session's sandbox; "" if it has none.
func hostOf(t *testing.T, h *session.Handle) string {
	t.Helper()
	s, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	if s.Sandbox == nil {
		return ""
	}
	return s.Sandbox.Host
}

// TestDrain: a host that is drained is left by its sessions, by an idle one at once and by
// one at work between two turns, and gets no new ones, also from a restarted worker.
func TestDrain(t *testing.T) {
	skip.InShort(t, "TestR124LongestIdleGivesWay evicts too")
	inOwnNamespace(t)
	first := startWorker(t)
	ctx := testContext(t)
	idle, busy := open(t, session.Options{}), open(t, session.Options{})
	require.NoError(t, say(t, idle, "SAY remember the word clementine").Err())
	awaitIdle(t, idle)
	running, gate := sendToGate(ctx, t, busy, "")
	queued, err := busy.Send(ctx, session.Message{Text: "SAY on another host"})
	require.NoError(t, err)
	host := hostOf(t, busy)
	require.Equal(t, host, hostOf(t, idle))

	drained := make(chan said, 1)
	go func() { drained <- program(t, "drain", host) }()
	require.Eventually(t, func() bool { return hostOf(t, idle) == "" }, patience, tick, "an idle session leaves at once")
	require.Equal(t, []string{"drain"}, reasons(t, idle))
	require.Equal(t, host, hostOf(t, busy), "a turn goes on")
	again, err := idle.Send(ctx, session.Message{Text: "RECALL"})
	require.NoError(t, err)
	startWorker(t)
	require.Contains(t, answeredWell(ctx, t, idle, again).Result.Response, "clementine")
	other := hostOf(t, idle)
	require.NotEqual(t, host, other)

	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, busy, running)
	require.Equal(t, "on another host", answeredWell(ctx, t, busy, queued).Result.Response)
	require.Equal(t, other, hostOf(t, busy))
	require.Equal(t, []string{"drain"}, reasons(t, busy))
	end := <-drained
	require.Zero(t, end.code, end.err)
	require.Equal(t, "host "+host+" is drained and holds no sandbox\n", end.out)
	require.Contains(t, end.err, "host "+host+" holds ")

	require.NoError(t, first.stop())
	startWorkerIn(t, first.dataDir)
	eventually(t, func(c *assert.CollectT) bool {
		require.Regexp(c, host+` has 0 sandboxes and is being drained`, program(t, "doctor").out)
		return true
	}, patience, tick)
	require.Contains(t, sojourn(t, "drain", host, "--undo"), "makes sandboxes again")
	require.Contains(t, sojourn(t, "drain", other, "--no-wait"), "is being drained")
	fresh := open(t, session.Options{})
	require.NoError(t, say(t, fresh, "SAY here").Err())
	require.Equal(t, host, hostOf(t, fresh))
	require.Equal(t, "here", say(t, fresh, "SAY here").Result.Response)

	unknown := program(t, "drain", "nowhere")
	require.Equal(t, 1, unknown.code)
	require.Contains(t, unknown.err, "host nowhere: its worker does not answer")
	for _, h := range []*session.Handle{idle, busy, fresh} {
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
	}
}

// TestSandboxMaxAge: a sandbox that is older than its host allows is given up between two
// turns, by a session at work too, and the conversation continues in the next one.
func TestSandboxMaxAge(t *testing.T) {
	skip.InShort(t, "TestR124LongestIdleGivesWay evicts too")
	inOwnNamespace(t)
	startWorker(t, "SOJOURN_SANDBOX_MAX_AGE=5s")
	ctx := testContext(t)
	h := open(t, session.Options{})
	running, gate := sendToGate(ctx, t, h, "")
	queued, err := h.Send(ctx, session.Message{Text: "SAY remember the word clementine"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return evictionAccepted(ctx, t, h) }, patience, tick, "the session is asked while its turn runs")
	require.Empty(t, reasons(t, h), "the turn goes on")
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, running)
	answeredWell(ctx, t, h, queued)
	require.Equal(t, "age", append(reasons(t, h), "none")[0])
	require.Eventually(t, func() bool { return hostOf(t, h) == "" }, patience, tick, "an idle session gives it up at once")
	require.Contains(t, say(t, h, "RECALL").Result.Response, "clementine")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// evictionAccepted reports whether a session's history has a request to give its sandbox up.
func evictionAccepted(ctx context.Context, t *testing.T, h *session.Handle) bool {
	t.Helper()
	for it := spaceOf(t).Temporal.GetWorkflowHistory(ctx, h.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		ev, err := it.Next()
		require.NoError(t, err)
		if ev.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName() == session.UpdateEvict {
			return true
		}
	}
	return false
}
