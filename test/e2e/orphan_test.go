package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// sandboxProcesses returns the runners and agents of a host's sandboxes.
func sandboxProcesses(t *testing.T, dir string) []harness.Seen {
	t.Helper()
	all, err := harness.Family(filepath.Join(dir, "sandboxes"), 0)
	require.NoError(t, err)
	return all
}

// requireEnd waits until no process of a host's sandboxes is left.
func requireEnd(t *testing.T, dir, after string) {
	t.Helper()
	var left []harness.Seen
	if !waits(func() bool { left = sandboxProcesses(t, dir); return len(left) == 0 }) {
		require.Fail(t, "processes are left", "after %s: %v", after, left)
	}
}

// TestNothingLeftOfARemovedDataFolder: the worker was killed and its data folder
// removed. No worker can find the agents any more, so they end by themselves.
func TestNothingLeftOfARemovedDataFolder(t *testing.T) {
	skip.InShort(t, "TestNothingLeft looks for remains too")
	inOwnNamespace(t)
	w := startWorker(t)
	for _, a := range scripted() {
		h := open(t, session.Options{Agent: a.Info().Name})
		t.Cleanup(func() {
			require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(context.WithoutCancel(t.Context()), h.ID(), "", "its host is gone"))
		})
		require.NoError(t, say(t, h, "SAY still warm").Err())
	}
	require.NoError(t, w.Kill())
	require.NotEmpty(t, sandboxProcesses(t, w.dataDir))
	require.True(t, waits(func() bool { return os.RemoveAll(w.dataDir) == nil }), "agents may still write")
	requireEnd(t, w.dataDir, "the removal of the data folder")
}

// TestNothingLeftWithoutAWorker: an idle agent lives as long as a worker is running,
// however long it gets no message, and ends when none returns. Its session continues
// when one does.
func TestNothingLeftWithoutAWorker(t *testing.T) {
	skip.InShort(t, "TestNothingLeft looks for remains too")
	inOwnNamespace(t)
	const lease = 12 * time.Second // a stalled machine keeps a worker from renewing it for some seconds
	setting := "SOJOURN_IDLE_LEASE=" + lease.String()
	w := startWorker(t, setting)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word quince").Err())
	awaitIdle(t, h)
	before := sandboxProcesses(t, w.dataDir)
	require.NotEmpty(t, before)
	since := time.Now()
	require.Eventually(t, func() bool { return time.Since(since) > 2*lease }, patience, tick)
	alive := map[int]string{}
	for _, p := range sandboxProcesses(t, w.dataDir) {
		alive[p.PID] = p.Start
	}
	for _, p := range before {
		require.Equal(t, p.Start, alive[p.PID], "%v is the agent of an idle session", p)
	}
	require.NoError(t, w.Kill())
	requireEnd(t, w.dataDir, "the worker's end")

	startWorkerIn(t, w.dataDir, setting)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "quince")
	require.NoError(t, h.Close(testContext(t)))
}
