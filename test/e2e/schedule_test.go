package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/session"
)

// TestScheduleWhileNoWorkerRan: what a schedule starts while no worker runs is done when one
// does, and a session that takes a message each time goes on.
func TestScheduleWhileNoWorkerRan(t *testing.T) {
	inOwnNamespace(t)
	sojourn(t, "schedule", "create", "standup", "SAY what changed", "--every", "24h", "--agent", "codex", "--session", "standups", "--overlap", "buffer-one")
	sojourn(t, "schedule", "create", "nightly", "SAY a job is done", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--agent", "codex")
	again := runProgram(t, "sojourn", "", nil, "schedule", "create", "nightly", "SAY x", "--every", "1h", "--agent", "codex")
	require.Equal(t, 3, again.code, again.err)
	sojourn(t, "schedule", "trigger", "standup")
	sojourn(t, "schedule", "trigger", "nightly")
	startWorker(t)

	turns := func() int {
		h, err := spaceOf(t).Client.Get(testContext(t), "standups")
		if err != nil {
			require.ErrorIs(t, err, session.ErrNotFound)
			return 0
		}
		s, err := h.Snapshot(testContext(t))
		require.NoError(t, err)
		return s.Turns
	}
	require.Eventually(t, func() bool { return turns() == 1 }, patience, tick)
	sojourn(t, "schedule", "trigger", "standup")
	require.Eventually(t, func() bool { return turns() == 2 }, patience, tick)
	require.Equal(t, 2, strings.Count(sojourn(t, "show", "standups"), "SAY what changed"))

	var all []schedules.Entry
	require.Eventually(t, func() bool {
		sojournJSON(t, &all, "schedule", "ls")
		return len(all) == 2 && all[0].LastWorkflow != ""
	}, patience, tick)
	require.Equal(t, "nightly", all[0].ID)
	require.Equal(t, "a job of codex", all[0].What)
	require.Equal(t, []string{"0 3 * * *", "Europe/Berlin"}, all[0].When)
	require.NoError(t, spaceOf(t).Temporal.GetWorkflow(testContext(t), all[0].LastWorkflow, "").Get(testContext(t), nil), "the job is done")

	sojourn(t, "schedule", "pause", "nightly", "--note", "holidays")
	require.Eventually(t, func() bool { return strings.Contains(sojourn(t, "schedule", "ls"), "paused") }, patience, tick)
	require.Contains(t, sojourn(t, "schedule", "ls"), "holidays")
	sojourn(t, "schedule", "resume", "nightly")
	sojourn(t, "schedule", "delete", "nightly")
	gone := runProgram(t, "sojourn", "", nil, "schedule", "trigger", "nightly")
	require.Equal(t, 1, gone.code, gone.err)
	require.Contains(t, gone.err, "nightly")
}
