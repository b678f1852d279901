package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session/fork"
)

// ForkAnywhere checks, for every transcript of the recordings and each of the blocks of its main
// conversation, that what is cut behind the block has the conversation up to it, and nothing more. The recordings must have so many blocks.
func (a Agent) ForkAnywhere(t *testing.T, blocks int) {
	t.Parallel()
	tried := 0
	for _, tr := range a.Transcripts(t) {
		t.Run(tr.Name, func(t *testing.T) {
			whole, faults := a.ParseAll(tr.Sources...)
			if len(faults) > 0 {
				t.Logf("is damaged: %v", faults)
				return
			}
			step := 1 + len(whole.Blocks)/25
			for n := 0; n < len(whole.Blocks); n += step {
				a.forkAt(t, tr.Sources, whole, n)
				tried++
			}
		})
	}
	require.GreaterOrEqual(t, tried, blocks)
}

// forkAt cuts behind the n-th block.
func (a Agent) forkAt(t *testing.T, sources []adapters.Source, whole reducer.State, n int) {
	t.Helper()
	at := whole.Blocks[n]
	kept, err := fork.Point(a.Adapter.Parse(sources), at.ID)
	require.NoError(t, err)
	require.True(t, kept.Blocks[at.ID])
	cut, err := fork.Cut(a.Adapter, sources, kept)
	require.NoError(t, err)
	forked := a.Parsed(t, cut...)
	// An agent may write what it says and the calls behind it in one line.
	endsThere := n+1 == len(whole.Blocks) || whole.Blocks[n+1].Type == event.BlockUserMessage
	if at.Type == event.BlockUserMessage || at.Type == event.BlockAssistantText && endsThere {
		require.Len(t, forked.Blocks, n+1, "a fork at %s %s has nothing more", at.Type, at.ID)
	}
	var want, got []string
	for _, b := range whole.Blocks {
		if kept.Blocks[b.ID] {
			want = append(want, b.ID)
		}
	}
	for i, b := range forked.Blocks {
		got = append(got, b.ID)
		if i < n {
			require.Equal(t, whole.Blocks[i].Content, b.Content, "block %s of a fork at %s", b.ID, at.ID)
		}
	}
	require.Equal(t, want, got, "at block %d, %s %s", n, at.Type, at.ID)
	for _, sub := range forked.Subagents {
		_, known := whole.Subagent(sub.ToolUseID, sub.AgentID)
		require.True(t, known)
		require.True(t, kept.Threads[sub.ToolUseID], "thread %s of a fork at %s", sub.ToolUseID, at.ID)
	}
}
