package opencode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/replay"
)

// recorded is what the tests of recordings and stories need to know of the agent.
var recorded = replay.Agent{
	Adapter:     New(),
	Runs:        func(t testing.TB) []replay.Run { return replay.RunsOf(runs(t)) },
	Transcripts: transcripts,
	Strange: []replay.Strange{{
		Line: `{"id":"evt_x","type":"never.heard","properties":{"sessionID":7,"part":[1],"status":"x"}}`, Kind: "never.heard"}},
	EmptyStays: true, // the database has it too
	StoryDue:   true, // requests to the server depend on what was emitted
}

func memory(path, text string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: event.Main, Path: path, Kind: adapters.Snapshot}, text)
}

// run is one process of the agent in a recording.
type run struct {
	replay.Run
	file replay.File
}

// runs returns the processes of all recordings: server-sent events if there are
// any, else the printed lines.
func runs(t testing.TB) []run {
	t.Helper()
	var out []run
	for _, f := range replay.Files(t, Name) {
		if strings.HasPrefix(f.Name(), "acp-") {
			continue // another adapter's
		}
		r := run{replay.Run{Name: f.Name(), End: "exit 0"}, f}
		if events := f.Path("events.sse.jsonl"); replay.Exists(events) {
			r.Records = replay.ReadRecords(t, events)
		} else {
			r.Prompt, r.Records = commandPrompt(f.Command(t)), f.Records(t)
		}
		out = append(out, r)
	}
	return out
}

// commandPrompt returns the prompt at the end of a recorded command line. The
// agent puts one with spaces into quotes.
func commandPrompt(command string) string {
	prompt, quoted := replay.LastArgument(command)
	if quoted {
		prompt = `"` + prompt + `"`
	}
	return prompt
}

// transcripts returns the databases in the recordings.
func transcripts(t testing.TB) []replay.Transcript {
	t.Helper()
	var out []replay.Transcript
	for _, r := range runs(t) {
		if home := r.file.Path("transcripts"); replay.Exists(home) {
			sources, err := adapters.SourcesFrom(New(), home)
			require.NoError(t, err)
			out = append(out, replay.Transcript{Name: r.Name, Sources: sources})
		}
	}
	return out
}
