package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/session"
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
	var counts []int
	for _, text := range []string{"SAY two deltas", many} {
		before := len(effective(history(t, h)))
		require.NoError(t, say(t, h, text).Err())
		awaitIdle(t, h)
		added := effective(history(t, h))[before:]
		t.Logf("%s: %d events: %s", text, len(added), strings.Join(added, ", "))
		counts = append(counts, len(added))
	}
	require.LessOrEqual(t, counts[0], warmTurnLimit)
	require.Equal(t, counts[0], counts[1], "history must not grow with the agent's output")
}

// effective leaves out workflow tasks without effect: those that a worker on a stalled
// machine did not answer in time, and those for an update that the workflow did not
// accept. Of several in a row it keeps the last one, and none at the end.
func effective(types []string) (out []string) {
	const ofOne = 3 // scheduled, started, completed
	var tasks []string
	for _, typ := range types {
		if strings.HasPrefix(typ, "WorkflowTask") {
			tasks = append(tasks, typ)
			continue
		}
		out = append(append(out, tasks[max(0, len(tasks)-ofOne):]...), typ)
		tasks = nil
	}
	return out
}

// history returns the types of the session's history events.
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

// awaitIdle waits until the workflow has finished the turn, which is a moment after
// query:completed is in the stream.
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
		return types[len(types)-1] == "TimerStarted"
	}, patience, tick, "the idle timer ends a turn")
}
