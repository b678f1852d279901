package claude

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// rules are what Claude Code's protocol does not send: ids of prompts that had
// none, threads of subagents' subagents, and, unless requested, the text of
// subagents.
var rules = parity.Rules{UngivenPrefix: UngivenPrefix, UnsentDepth: 2, UnsentText: true}

// foldLive returns the state that runs make.
func foldLive(t testing.TB, runs []process, side ...adapters.Source) reducer.State {
	t.Helper()
	return recorded.Live(t, replay.Spool(replay.RunsOf(runs)), side...)
}

// For every recording with both sides, folding the live events makes what the
// transcript has.
func TestParityClaude(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		runs := tr.live(all)
		if turn := tr.firstUnstreamed(runs); turn != "" {
			t.Logf("%-45s has one side only: no stream was recorded of %s", tr.Name, turn)
			continue
		}
		compared++
		t.Run(strings.TrimSuffix(tr.Name, "/"), func(t *testing.T) {
			replay.Comparison{
				Heading: fmt.Sprintf("%-45s %d runs", tr.Name, len(runs)),
				Live:    foldLive(t, runs), Restored: recorded.Parsed(t, tr.Sources...), Rules: rules,
			}.Test(t)
		})
	}
	require.Greater(t, compared, len(transcripts(t))*9/10)
}

// With the subagents' own files beside the stream, nothing of subagents is left
// out.
func TestParityWithSide(t *testing.T) {
	t.Parallel()
	all := processes(t)
	strict := parity.Rules{UngivenPrefix: UngivenPrefix}
	compared := 0
	for _, tr := range transcripts(t) {
		var side []adapters.Source
		explained := false
		for _, s := range tr.Sources {
			if s.ID != "main" {
				side = append(side, s)
			}
			explained = explained || strings.HasSuffix(s.ID, metaID)
		}
		if !explained {
			continue // no subagents, or version 2.0's, whose files don't name the call
		}
		compared++
		replay.Same(t, foldLive(t, tr.live(all), side...), recorded.Parsed(t, tr.Sources...), strict, tr.Name)
	}
	require.NotZero(t, compared)
}
