package gemini

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/reducer"
)

// rules are what the protocol does not tell: the threads of subagents.
var rules = parity.Rules{UnsentDepth: 1}

// headlessRules are those of recordings in the headless mode, which numbers
// nothing: a resumed run does not know what came before it.
var headlessRules = parity.Rules{UnsentDepth: 1, NoCommonIDs: true}

func rulesOf(runs []process) parity.Rules {
	for _, p := range runs {
		if p.headless {
			return headlessRules
		}
	}
	return rules
}

// For every recording with both sides, folding what was said live gives what
// the transcript holds.
func TestParityGemini(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		runs := tr.live(t, all)
		if len(runs) == 0 || runs[0].later {
			t.Logf("%-45s no stream from its beginning was recorded", tr.name)
			continue
		}
		compared++
		t.Run(tr.name, func(t *testing.T) {
			live := foldLive(t, runs, nil)
			restored := foldParsed(t, tr.sources)
			diffs, err := parity.Compare(live, restored, rulesOf(runs))
			require.NoError(t, err)
			t.Logf("%-45s %d runs, %d blocks, %d subagents, %d differences",
				tr.name, len(runs), countBlocks(restored), len(restored.Subagents), len(diffs))
			for _, d := range diffs {
				t.Error(d)
			}
		})
	}
	require.NotZero(t, compared)
}

// With the subagents' own files beside the stream, nothing about subagents is
// left out.
func TestParityWithSide(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		side := tr.sources[1:]
		runs := tr.live(t, all)
		if len(side) == 0 || len(runs) == 0 || runs[0].later {
			continue
		}
		compared++
		strict := rulesOf(runs)
		strict.UnsentDepth = 0
		diffs, err := parity.Compare(foldLive(t, runs, tr.sources), foldParsed(t, tr.sources), strict)
		require.NoError(t, err)
		require.Empty(t, diffs, tr.name)
	}
	require.NotZero(t, compared)
}

func foldLive(t testing.TB, runs []process, side []adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(New(), sequence(spool(runs)), adapters.TranslateOptions{Side: side}))
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
