package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/parity"
)

// TestAgentDeathIsNamedAndRestored kills the agent from within during a turn. The turn
// fails by name, the live conversation equals the restored one, and the next message
// continues with all that the agent knew.
func TestAgentDeathIsNamedAndRestored(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word clementine").Err())
	res := say(t, h, "SAY about to die THEN TOOL bash: kill -9 $PPID")
	require.Equal(t, session.Failed, res.Outcome)
	require.Equal(t, session.TypeAgentFailed, res.Error.Code)
	require.ErrorContains(t, res.Err(), "the agent ended in the middle of the turn")

	next := say(t, h, "RECALL")
	require.NoError(t, next.Err())
	require.Contains(t, next.Result.Response, "clementine")
	require.NoError(t, h.Close(testContext(t)))

	live, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromStream)
	require.NoError(t, err)
	restored, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	differences, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
}
