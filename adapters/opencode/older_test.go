package opencode

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// older returns the recording of version 1.0: three turns, the second with a
// subagent. Its main conversation is compared in TestParityListed.
func older(t *testing.T) run {
	t.Helper()
	all := runs(t)
	at := slices.IndexFunc(all, func(r run) bool { return r.Name == "v1.0.185-serve/" })
	require.GreaterOrEqual(t, at, 0)
	return all[at]
}

// A subagent of version 1.0 is a conversation of the call that started it,
// which begins with its prompt and is what the server lists of the child.
func TestOlderSubagent(t *testing.T) {
	t.Parallel()
	r := older(t)
	live := recorded.Live(t, r.Spool())
	require.Len(t, live.Subagents, 1)
	sub := live.Subagents[0]
	require.Contains(t, replay.JSON(t, live.Blocks), `"toolUseId":"`+sub.ToolUseID+`"`)
	require.Equal(t, event.BlockUserMessage, sub.Blocks[0].Type)
	require.Equal(t, "THINK about it THEN TOOL bash: echo in-sub THEN SAY sub is done", *sub.Blocks[0].Content)

	sources, err := adapters.SourcesFrom(New(), r.file.Path("child.json"))
	require.NoError(t, err)
	listed := recorded.Parsed(t, sources...)
	replay.Same(t, reducer.State{Blocks: sub.Blocks}, reducer.State{Blocks: listed.Blocks}, parity.Rules{})
}

// Version 1.0 repeats a text with each piece of it; only the piece is emitted.
func TestOlderPieces(t *testing.T) {
	t.Parallel()
	const text = "prt_2046242b5001vckJysx1RV5szz"
	var emitted []string
	for e, err := range adapters.Translate(New(), replay.Sequence(older(t).Records), adapters.TranslateOptions{}) {
		require.NoError(t, err)
		switch p := e.Payload.(type) {
		case event.BlockDelta:
			if p.BlockID == text {
				emitted = append(emitted, "+"+p.Delta)
			}
		case event.BlockUpsert:
			if p.Block.ID == text && p.Block.Content != nil {
				emitted = append(emitted, *p.Block.Content)
			}
		}
	}
	require.Equal(t, []string{"hello ", "+wonderful ", "+world", "hello wonderful world"}, emitted)
}
