package gemini

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// rules are what the protocol does not send: the threads of subagents.
var rules = parity.Rules{UnsentDepth: 1}

// headlessRules are those of recordings in the headless mode, which numbers
// nothing: a resumed run does not have the number of what came before it.
var headlessRules = parity.Rules{UnsentDepth: 1, NoCommonIDs: true}

func rulesOf(runs []process) parity.Rules {
	for _, p := range runs {
		if p.headless {
			return headlessRules
		}
	}
	return rules
}

// foldLive returns the state that runs make.
func foldLive(t testing.TB, runs []process, side ...adapters.Source) reducer.State {
	t.Helper()
	return recorded.Live(t, replay.Spool(replay.RunsOf(runs)), side...)
}

// For every recording with both sides, folding the live events makes what the
// transcript has.
func TestParityGemini(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		runs := tr.live(t, all)
		if len(runs) == 0 || runs[0].later {
			t.Logf("%-45s no stream from its beginning was recorded", tr.Name)
			continue
		}
		compared++
		t.Run(tr.Name, func(t *testing.T) {
			replay.Comparison{
				Heading: fmt.Sprintf("%-45s %d runs", tr.Name, len(runs)),
				Live:    foldLive(t, runs), Restored: recorded.Parsed(t, tr.Sources...), Rules: rulesOf(runs),
				CountRestored: true,
			}.Test(t)
		})
	}
	require.NotZero(t, compared)
}

// With the subagents' own files beside the stream, nothing of subagents is left
// out.
func TestParityWithSide(t *testing.T) {
	t.Parallel()
	all := processes(t)
	compared := 0
	for _, tr := range transcripts(t) {
		side := tr.Sources[1:]
		runs := tr.live(t, all)
		if len(side) == 0 || len(runs) == 0 || runs[0].later {
			continue
		}
		compared++
		strict := rulesOf(runs)
		strict.UnsentDepth = 0
		replay.Same(t, foldLive(t, runs, tr.Sources...), recorded.Parsed(t, tr.Sources...), strict, tr.Name)
	}
	require.NotZero(t, compared)
}
