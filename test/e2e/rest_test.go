package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

// TestAgentsOutliveTheWorker: a worker that stops leaves its agents, and the next one
// on the same data folder continues with the same process. With --stop-agents a worker
// ends them, and the session resumes all the same (TestAHostIsPutToRest).
func TestAgentsOutliveTheWorker(t *testing.T) {
	inOwnNamespace(t)
	dir := hostDir(t)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	w := startWorkerIn(t, dir)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word quince").Err())
	require.NoError(t, w.stop())

	w = startWorkerIn(t, dir)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "quince")
	require.Equal(t, []int{0, 0}, restarts(t, h), "the same agent process")
	require.NoError(t, w.stop())

	startWorkerIn(t, dir)
	require.NoError(t, h.Close(testContext(t)))
	left, err := harness.Agents(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAHostIsPutToRest(t *testing.T) {
	inOwnNamespace(t)
	dir := hostDir(t)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	w := startWorkerIn(t, dir, "--stop-agents")
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word medlar").Err())
	awaitIdle(t, h)
	require.NoError(t, w.stop())
	eventually(t, func(c *assert.CollectT) bool {
		left, err := harness.Agents(dir)
		require.NoError(c, err)
		return len(left) == 0
	}, patience, tick, "no agent is left")
	require.NotEmpty(t, sandboxes(t, w), "the sandbox stays")

	startWorkerIn(t, dir)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "medlar")
	require.Equal(t, []int{0, 1}, restarts(t, h), "another agent process in the same sandbox")
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// restarts returns the agent's restart count at each health check.
func restarts(t *testing.T, h *session.Handle) []int {
	t.Helper()
	var counts []int
	for _, check := range payloads[event.EEHealthCheck](events(t, h)) {
		counts = append(counts, check.RestartCount)
	}
	return counts
}
