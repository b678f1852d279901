package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/session"
)

// warmTurnLimit is law L6: counted from send (update) to idle, idle timer and
// search attributes included.
const warmTurnLimit = 16

// TestWarmTurnHistory counts what a warm turn adds to workflow history: the
// same few events whether the agent said two deltas or twenty thousand
// (in a short run, five thousand).
func TestWarmTurnHistory(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY the sandbox is warm now").Err())
	awaitIdle(t, h)
	many := "DELTAS 20000"
	if testing.Short() {
		many = "DELTAS 5000"
	}
	var counts []int
	for _, text := range []string{"SAY two deltas", many} {
		before := len(history(t, h))
		require.NoError(t, say(t, h, text).Err())
		awaitIdle(t, h)
		added := inTime(history(t, h)[before:])
		t.Logf("%s: %d events: %s", text, len(added), strings.Join(added, ", "))
		counts = append(counts, len(added))
	}
	require.LessOrEqual(t, counts[0], warmTurnLimit)
	require.Equal(t, counts[0], counts[1], "history must not grow with what the agent says")
}

// inTime leaves out the workflow tasks that a worker on a stalled machine did not
// answer in time: they are no work of the turn's.
func inTime(types []string) []string {
	const late = 3 // scheduled, started, timed out
	for {
		at := slices.Index(types, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT.String())
		if at < late-1 {
			return types
		}
		types = slices.Delete(types, at-late+1, at+1)
	}
}

// history gives the types of the session's history events.
func history(t *testing.T, h *session.Handle) []string {
	t.Helper()
	var types []string
	it := spaceOf(t).Temporal.GetWorkflowHistory(testContext(t), h.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		require.NoError(t, err)
		types = append(types, ev.GetEventType().String())
	}
	return types
}

// awaitIdle waits until the workflow itself has put the turn away, which is a
// moment after the stream says that the query completed.
func awaitIdle(t *testing.T, h *session.Handle) {
	t.Helper()
	require.Eventually(t, func() bool {
		types := history(t, h)
		return types[len(types)-1] == "TimerStarted"
	}, patience, tick, "the idle timer ends a turn")
}
