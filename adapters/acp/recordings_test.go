package acp

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/recordings"
	"github.com/sojourn-run/sojourn/test/replay"
)

// recorded is what the tests of recordings need to know of the agent. It uses the
// recordings of all agents that speak the protocol, recognised by their lines.
var recorded = replay.Agent{Adapter: New(), Runs: exchanges}

func exchanges(t testing.TB) []replay.Run {
	t.Helper()
	root := recordings.Dir(t, "")
	agents, err := os.ReadDir(root)
	require.NoError(t, err)
	var out []replay.Run
	for _, agent := range agents {
		for _, f := range replay.Files(t, agent.Name()) {
			if text := replay.ReadFile(t, f.Path("timed.jsonl")); strings.Contains(text, `session/prompt`) && strings.Contains(text, `protocolVersion`) {
				out = append(out, replay.Run{Name: agent.Name() + "/" + f.Name(), Records: f.Records(t)})
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// kept returns the records as the recorder would have written them: what passed
// over stdin and stdout.
func kept(records []traffic.Record) string {
	var b []byte
	for _, r := range records {
		if r.Dir == event.DirIn || r.Dir == event.DirOut {
			b = append(traffic.Append(b, r), '\n')
		}
	}
	return string(b)
}

func memory(id, text string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: id, Path: recordFile, Kind: adapters.Append}, text)
}

// bothSides returns the states that records and the recorder's file of them make.
func bothSides(t testing.TB, records []traffic.Record) (live, restored reducer.State) {
	t.Helper()
	return recorded.Live(t, records), recorded.Parsed(t, memory(event.Main, kept(records)))
}

// For every recording of the protocol, folding the live events makes what the
// recorder's file has.
func TestParityRecordings(t *testing.T) {
	t.Parallel()
	for _, r := range exchanges(t) {
		live, restored := bothSides(t, r.Records)
		diffs, err := parity.Compare(parity.Native(live), restored, parity.Rules{})
		require.NoError(t, err)
		t.Logf("%-60s %d records, %d blocks, %d differences", r.Name, len(r.Records), len(restored.Blocks), len(diffs))
		for _, d := range diffs {
			t.Errorf("%s: %s", r.Name, d)
		}
	}
}

// A kill at any place in a recording leaves both sides equal.
func TestParityCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range exchanges(t) {
		step := max(1, len(r.Records)/40)
		for cut := 0; cut < len(r.Records); cut += step {
			live, restored := bothSides(t, r.Records[:cut])
			replay.Same(t, live, restored, parity.Rules{}, "%s cut at %d", r.Name, cut)
		}
	}
}

func TestSplitAnywhere(t *testing.T) { recorded.SplitAnywhere(t) }

// What a real program sent over the protocol, as the host's events.
func TestRecordedOpenCode(t *testing.T) {
	t.Parallel()
	for _, r := range exchanges(t) {
		if !strings.HasPrefix(r.Name, "opencode/acp-basic/") || strings.HasSuffix(r.Name, "load-") {
			continue
		}
		s := recorded.Live(t, r.Records)
		var kinds []string
		names := map[string]int{}
		for _, b := range s.Blocks {
			kinds = append(kinds, string(b.Type))
			if b.Type == event.BlockToolUse {
				names[b.ToolName]++
				require.NotEqual(t, event.ExecutionRunning, b.Execution)
			}
		}
		require.Equal(t, map[string]int{"execute": 5, "edit": 1, "think": 1, "lab_lab_echo": 1}, names)
		require.Equal(t, "user_message assistant_text user_message thinking assistant_text", strings.Join(kinds[:5], " "))
		require.Contains(t, kinds, "error", "the failed request of the model's API")
		return
	}
	t.Fatal("no recording of opencode acp")
}
