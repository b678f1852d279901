package claude

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/reducer"
)

// rules are what Claude Code's protocol does not tell: ids of prompts that the
// host gave none, threads of subagents' subagents, and, unless it is asked
// for, what subagents say.
var rules = parity.Rules{UngivenPrefix: UngivenPrefix, UnsentDepth: 2, UnsentText: true}

// For every recording with both sides, folding what was said live gives what
// the transcript holds.
func TestParityClaude(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		runs := tr.live(all)
		if turn := tr.untold(runs); turn != "" {
			t.Logf("%-45s has one side only: no stream was recorded of %s", tr.name, turn)
			continue
		}
		compared++
		t.Run(strings.TrimSuffix(tr.name, "/"), func(t *testing.T) {
			live := foldLive(t, runs, nil)
			restored := foldParsed(t, tr.sources)
			diffs, err := parity.Compare(live, restored, rules)
			require.NoError(t, err)
			t.Logf("%-45s %d runs, %d blocks, %d subagents, %d differences",
				tr.name, len(runs), countBlocks(live), len(live.Subagents), len(diffs))
			for _, d := range diffs {
				t.Error(d)
			}
		})
	}
	require.Greater(t, compared, len(transcripts(t))*9/10)
}

// With the subagents' own files beside the stream, nothing about subagents is
// left out.
func TestParityWithSide(t *testing.T) {
	t.Parallel()
	all := processes(t)
	strict := parity.Rules{UngivenPrefix: UngivenPrefix}
	compared := 0
	for _, tr := range transcripts(t) {
		var side []adapters.Source
		for _, s := range tr.sources {
			if s.ID != "main" {
				side = append(side, s)
			}
		}
		if len(side) == 0 {
			continue
		}
		compared++
		diffs, err := parity.Compare(foldLive(t, tr.live(all), side), foldParsed(t, tr.sources), strict)
		require.NoError(t, err)
		require.Empty(t, diffs, tr.name)
	}
	require.NotZero(t, compared)
}

func foldLive(t testing.TB, runs []process, side []adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(New(), sequence(spool(t, runs)), adapters.TranslateOptions{Side: side}))
	require.NoError(t, err)
	return s
}

func foldParsed(t testing.TB, sources []adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(New().Parse(sources))
	require.NoError(t, err)
	return s
}

func countBlocks(s reducer.State) int {
	n := len(s.Blocks)
	for _, sub := range s.Subagents {
		n += len(sub.Blocks)
	}
	return n
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
