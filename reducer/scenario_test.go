package reducer

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/reducer/overview"
)

// NB: go test ./reducer -rewrite writes the reducer's results into the scenarios.
// Read the diff: each line of it changes what every client shows.
var rewrite = flag.Bool("rewrite", false, "write the states that come out into testdata")

// TestScenarios runs the scenarios in testdata. Each has a head in prose with what it
// proves, the events, and the results: "state" for the conversation, "session" (optional)
// for the rest of the session.
func TestScenarios(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 25)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			runScenario(t, path)
		})
	}
}

func runScenario(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	story := parseStory(data)
	require.NotEmpty(t, bytes.TrimSpace(story.prose), "a scenario starts with what it proves")
	events := decodeAll(t, story.section("events").data)
	outcomes := map[string]any{"state": buildAll(events), "session": sessionOf(events)}
	require.Equal(t, reduceAll(State{}, events), outcomes["state"])
	for name, outcome := range outcomes {
		want, got := story.section(name), pretty(t, outcome)
		switch {
		case want == nil:
		case *rewrite:
			want.data = got
		default:
			require.Equal(t, string(want.data), string(got), "section %s", name)
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, story.format(), 0o644))
	}
}

func decodeAll(t testing.TB, lines []byte) []event.Event {
	t.Helper()
	var events []event.Event
	for e, err := range jsonl.Decode(bytes.NewReader(lines)) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

func sessionOf(events []event.Event) overview.Session {
	var b overview.Builder
	for _, e := range events {
		b.Add(e)
	}
	return b.Session()
}

func pretty(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(v))
	return buf.Bytes()
}
