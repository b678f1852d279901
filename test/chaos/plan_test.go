package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlanComesFromTheSeed(t *testing.T) {
	t.Parallel()
	require.Equal(t, Plan(1, 100), Plan(1, 100))
	require.NotEqual(t, Plan(1, 100), Plan(2, 100))
	require.Equal(t, Plan(1, 500)[:75], Plan(1, 75), "a longer plan goes on from a shorter one")
}

func TestPlanHasEveryKind(t *testing.T) {
	t.Parallel()
	n := 0
	for k, times := range bag {
		require.GreaterOrEqual(t, k.rank(), 1, k)
		n += times
	}
	require.Equal(t, 25, n, "the shortest run, that of CI, has all")
	met := map[Kind]int{}
	for _, k := range Plan(7, 25) {
		met[k.Kind]++
		require.Positive(t, k.After)
		require.LessOrEqual(t, k.After, maxAfter)
	}
	require.Equal(t, bag, met)
	require.Len(t, Plan(7, 13), 13)
}

func TestHardest(t *testing.T) {
	t.Parallel()
	require.Equal(t, Undisturbed, hardest(nil))
	require.Equal(t, HostKill, hardest([]Kind{WorkerKill, HostKill, AgentKill}))
	for _, k := range kinds {
		dies := k == LeaseOver || k == Steered || k == Parked || k == HostileTool || k == AgentKill || k == RunnerKill || k == HostKill
		require.Equal(t, !dies, k.agentLives(), k)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for s := range 20 {
		for n := range 20 {
			seen[messageMark(s, n)] = true
		}
	}
	require.Len(t, seen, 400)
	for _, script := range scripts {
		seen := fill(script, messageMark(3, 4))
		require.NotContains(t, seen, mark)
		require.Contains(t, seen[:min(len(seen), 120)], messageMark(3, 4), "within what the model server keeps of a prompt")
		require.Equal(t, script, unfill(seen, messageMark(3, 4)))
	}
	require.Equal(t, scriptOf(1, 5, 6), scriptOf(1, 5, 6))
}
