package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// TestShowWithTheArchiveAway: the stream has all of an open session, so show doesn't
// wait for the archive. For a closed one the archive is needed, and the error names it.
func TestShowWithTheArchiveAway(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY it is all in the stream").Err())
	awaitIdle(t, h)
	addr := teststack.ClosedAddress(t)
	noArchive := []string{"AWS_ENDPOINT_URL_S3=http://" + addr}
	for _, args := range [][]string{{"show", h.ID()}, {"show", h.ID(), "--json"}, {"show", h.ID(), "--from", "stream"}} {
		shown := runProgram(t, "sojourn", "", noArchive, args...)
		require.Zero(t, shown.code, shown.err)
		require.Empty(t, waitsFor.ReplaceAllString(shown.err, ""), "nothing is missing")
		require.Equal(t, sojourn(t, args...), shown.out)
		require.Contains(t, shown.out, "it is all in the stream")
	}
	refused(t, runProgram(t, "sojourn", "", noArchive, "show", h.ID(), "--from", "archive"), 1, addr, "AWS_ENDPOINT_URL_S3")
	require.NoError(t, h.Close(testContext(t)))
	refused(t, runProgram(t, "sojourn", "", noArchive, "show", h.ID()), 1, addr, "AWS_ENDPOINT_URL_S3")
}

// TestCostInLists: an unreported cost is not zero, and a parent's cost includes its
// children's.
func TestCostInLists(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	silent := open(t, session.Options{Agent: "codex"})
	followed := sojourn(t, "send", silent.ID(), "SAY for nothing", "--follow")
	require.Contains(t, followed, " out · –\n")
	require.NotContains(t, followed, "$")
	awaitIdle(t, silent)
	require.Regexp(t, silent.ID()+`.* –  +\S+`, sojourn(t, "ls", "--query", "WorkflowId = '"+silent.ID()+"'"))
	require.NotContains(t, sojourn(t, "ls", "--json", "--query", "WorkflowId = '"+silent.ID()+"'"), "costUSD")
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, silent.ID(), "")
	require.NoError(t, err)
	require.NotContains(t, d.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields(), "SojournCostUSD")

	parent := open(t, session.Options{Agent: "claude"})
	own := say(t, parent, "SAY at a price")
	require.NoError(t, own.Err())
	awaitIdle(t, parent)
	sojourn(t, "spawn", parent.ID(), "--agent", "claude", "SAY at the same price")
	require.Eventually(t, func() bool {
		var found []session.Summary
		sojournJSON(t, &found, "ls", "--query", "WorkflowId = '"+parent.ID()+"'")
		return len(found) == 1 && found[0].CostUSD != nil && *found[0].CostUSD > 1.5**own.Result.CostUSD
	}, patience, tick, "the list has the tree's cost")
	require.NoError(t, parent.Close(ctx))
	require.NoError(t, silent.Close(ctx))
}

// TestShowTree: with --tree the conversation of a child session is where it was started, on a
// terminal and as JSON, live and from the archive.
func TestShowTree(t *testing.T) {
	skip.InShort(t, "TestTreeIsGrafted has the rule")
	withClaude(t)
	onSharedHost(t)
	parent := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, parent, "SAY the parent's words").Err())
	sojourn(t, "spawn", parent.ID(), "--agent", "codex", "TOOL bash: echo $((40+2)) from the child THEN SAY the child's words")
	require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	shown := func() string {
		sojournJSON := sojourn(t, "show", parent.ID(), "--tree", "--json")
		var s reducer.State
		require.NoError(t, json.Unmarshal([]byte(sojournJSON), &s))
		require.Len(t, s.Subagents, 1)
		require.NotEmpty(t, s.Subagents[0].ChildSessionID)
		require.NotEmpty(t, s.Subagents[0].Blocks)
		return sojourn(t, "show", parent.ID(), "--tree")
	}
	live := shown()
	require.Contains(t, live, "42 from the child")
	require.NoError(t, parent.Close(testContext(t)))
	require.Contains(t, shown(), "the child's words")
	require.NotContains(t, sojourn(t, "show", parent.ID()), "42 from the child", "without --tree the child is one line")
}

// TestR46SpawnEvents: the events of a child come with the path to it, between those of
// its start and its end, which has its output; those of a grandchild with a longer path.
func TestR46SpawnEvents(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	child, gate := spawnGated(t, parent)
	x, err := child.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY from below"}})
	require.NoError(t, err)
	deep := x.Receipt().SessionID
	_, err = x.Wait(ctx)
	require.NoError(t, err)
	spaceOf(t).Model.Open(gate)
	require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	require.NoError(t, parent.Close(ctx))

	type told struct {
		Type      string
		SpawnPath []string
		Context   event.Context
	}
	at := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(sojourn(t, "tail", parent.ID(), "--tree", "--follow", "--json")), "\n") {
		var e told
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		want := map[string][]string{parent.ID(): nil, child.ID(): {child.ID()}, deep: {child.ID(), deep}}[e.Context.SessionID]
		require.Equal(t, want, e.SpawnPath)
		at[e.Type+" "+e.Context.SessionID] = i
		at["last "+e.Context.SessionID] = i
	}
	require.Greater(t, at["session:initialized "+child.ID()], at["subagent:spawned "+parent.ID()])
	require.Greater(t, at["subagent:completed "+parent.ID()], at["last "+child.ID()])
	require.Greater(t, at["session:initialized "+deep], at["subagent:spawned "+child.ID()])
	require.Greater(t, at["subagent:completed "+child.ID()], at["last "+deep])
	shown := sojourn(t, "tail", parent.ID(), "--tree")
	require.Contains(t, shown, "│ from below")
	for _, ev := range events(t, child) {
		if p, ok := ev.Payload.(event.SubagentCompleted); ok {
			require.Equal(t, new("from below"), p.Output)
			require.Equal(t, event.SubagentCompletedOK, p.Status)
			require.Equal(t, int64(100), p.Usage.InputTokens, "what the model reports for one call")
		}
	}
}
