package codex

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/reducer"
)

// execRules are what `codex exec --json` does not tell: ids, and what subagents
// say. Our own mode tells everything.
var execRules = parity.Rules{UngivenPrefix: UngivenPrefix, NoCommonIDs: true, UnsentDepth: 1}

// onlyKept are transcripts that hold more than anybody recorded, with the
// reason; everything else with both sides is compared.
func onlyKept(tr transcript, runs []process) string {
	switch turns := len(tr.turns()); {
	case len(runs) == 0:
		return "nobody recorded a run of this thread"
	case runs[0].exec && turns > len(runs):
		return "the program outlived its killed parent, or other runs of this thread were not kept"
	}
	return ""
}

// For every recording with both sides, folding what was said live gives what
// the rollouts hold.
func TestParityCodex(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := map[string]bool{}
	for _, tr := range transcripts(t) {
		runs := tr.live(all)
		if why := onlyKept(tr, runs); why != "" {
			t.Logf("%-38s %s not compared: %s", tr.name, tr.thread, why)
			continue
		}
		for _, r := range runs {
			compared[r.name] = true
		}
		t.Run(runs[0].name, func(t *testing.T) { compare(t, tr, runs) })
	}
	for _, p := range all {
		if !compared[p.name] {
			t.Logf("%-38s no rollout of this run was kept", p.name)
		}
	}
	require.Greater(t, len(compared), 20)
}

func compare(t *testing.T, tr transcript, runs []process) {
	rules := parity.Rules{}
	for _, r := range runs {
		if r.exec {
			rules = execRules
		}
	}
	live := foldLive(t, runs, nil)
	restored := foldParsed(t, tr.sources)
	diffs, err := parity.Compare(live, restored, rules)
	require.NoError(t, err)
	t.Logf("%-38s %d runs, %d blocks, %d subagents, %d differences",
		runs[0].name, len(runs), countBlocks(live), len(live.Subagents), len(diffs))
	for _, d := range diffs {
		t.Error(d)
	}
	require.NotZero(t, countBlocks(live))
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

func compareStates(t testing.TB, live, restored reducer.State) {
	t.Helper()
	diffs, err := parity.Compare(live, restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, diffs)
	require.NotZero(t, countBlocks(live))
}
