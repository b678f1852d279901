package codex

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

var rewrite = flag.Bool("rewrite", false, "write the events and states of the stories anew")

// A story is a conversation with the agent: prose, its records, and what they
// become. Where it also has transcripts, those must give the same state.
//
// If this test fails, run it with -rewrite and read the difference. Keep it
// only if you know what made it, and want it.
func TestStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			tellStory(t, file)
		})
	}
}

func tellStory(t *testing.T, file string) {
	archive := readArchive(t, file)
	require.NotEmpty(t, archive.comment, "a story begins with what it is about")
	events, state := liveStory(t, archive.get("records"))
	if *rewrite {
		archive.set("events", events)
		archive.set("state", pretty(t, state))
		require.NoError(t, os.WriteFile(file, []byte(archive.String()), 0o644))
	}
	require.Equal(t, archive.get("events"), events)
	require.Equal(t, archive.get("state"), pretty(t, state))
	if sources := storySources(archive); len(sources) > 0 {
		restored, err := reducer.Fold(New().Parse(sources))
		require.NoError(t, err)
		diffs, err := parity.Compare(state, restored, parity.Rules{})
		require.NoError(t, err)
		require.Empty(t, diffs)
	}
}

// liveStory translates records that are written as a direction and a native
// line, and gives the events, one per line, and what they fold to.
func liveStory(t *testing.T, text string) (string, reducer.State) {
	t.Helper()
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	var out strings.Builder
	b := reducer.NewBuilder(reducer.State{})
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		dir, line, _ := strings.Cut(l, " ")
		for _, e := range tr.Step(event.Record{Dir: event.Dir(dir), Line: line}) {
			b.Add(e)
			payload, err := json.Marshal(e.Payload)
			require.NoError(t, err)
			fmt.Fprintf(&out, "%s %s %s\n", e.Context.Conversation(), e.Type(), payload)
		}
	}
	return out.String(), b.State()
}

func pretty(t *testing.T, s reducer.State) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var buf bytes.Buffer
	require.NoError(t, json.Indent(&buf, data, "", " "))
	return buf.String() + "\n"
}

func storySources(a *archive) []adapters.Source {
	var out []adapters.Source
	for _, f := range a.sections {
		if threadID(f.name) == "" {
			continue
		}
		src := memory(threadID(f.name), f.text)
		first, _, _ := strings.Cut(f.text, "\n")
		if !strings.Contains(first, "parent_thread_id") {
			src.ID = event.Main
		}
		out = append(out, src)
	}
	return out
}
