package opencode

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

var rewrite = flag.Bool("rewrite", false, "write the events and states of the stories anew")

// A story is a conversation with the agent: prose, its records, and what they
// become.
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
	a, err := txtar.ParseFile(file)
	require.NoError(t, err)
	require.NotEmpty(t, a.Comment, "a story begins with what it is about")
	require.Equal(t, "records", a.Files[0].Name)
	events, state := liveStory(t, string(a.Files[0].Data))
	if *rewrite {
		a.Files = append(a.Files[:1], txtar.File{Name: "events", Data: []byte(events)}, txtar.File{Name: "state", Data: []byte(state)})
		require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
	}
	require.Len(t, a.Files, 3)
	require.Equal(t, string(a.Files[1].Data), events)
	require.Equal(t, string(a.Files[2].Data), state)
}

// liveStory translates records that are written as a direction and a native
// line, and gives the events, one per line, and what they fold to.
func liveStory(t *testing.T, text string) (events, state string) {
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
		for _, m := range tr.Due() {
			fmt.Fprintf(&out, "due %s\n", m.Data)
		}
	}
	var buf bytes.Buffer
	require.NoError(t, json.Indent(&buf, []byte(toJSON(t, b.State())), "", " "))
	return out.String(), buf.String() + "\n"
}
