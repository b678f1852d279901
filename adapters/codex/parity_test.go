package codex

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// execRules are what `codex exec --json` does not have: ids, and the text of
// subagents. Our own mode has everything.
var execRules = parity.Rules{UngivenPrefix: UngivenPrefix, NoCommonIDs: true, UnsentDepth: 1}

// onlyKept are transcripts that have more than what was recorded, with the
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

// For every recording with both sides, folding the live events makes what the
// rollouts have.
func TestParityCodex(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := map[string]bool{}
	for _, tr := range transcripts(t) {
		runs := tr.live(all)
		if why := onlyKept(tr, runs); why != "" {
			t.Logf("%-38s %s not compared: %s", tr.Name, tr.thread, why)
			continue
		}
		for _, r := range runs {
			compared[r.Name] = true
		}
		t.Run(runs[0].Name, func(t *testing.T) { compare(t, tr, runs) })
	}
	for _, p := range all {
		if !compared[p.Name] {
			t.Logf("%-38s no rollout of this run was kept", p.Name)
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
	live := recorded.Live(t, replay.Spool(replay.RunsOf(runs)))
	replay.Comparison{
		Heading: fmt.Sprintf("%-38s %d runs", runs[0].Name, len(runs)),
		Live:    live, Restored: recorded.Parsed(t, tr.Sources...), Rules: rules,
	}.Test(t)
	require.NotZero(t, replay.CountBlocks(live))
}
