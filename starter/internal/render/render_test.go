package render_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

var update = flag.Bool("update", false, "write what is shown into the golden files")

// views are the ways in which every story is shown.
var views = []struct {
	name string
	show func(t *testing.T, events []event.Event) string
}{
	{"pipe", func(t *testing.T, events []event.Event) string { return live(t, events, render.Options{}) }},
	{"terminal", func(t *testing.T, events []event.Event) string {
		return live(t, events, render.Options{Color: true, Rewrite: true, Width: 60})
	}},
	{"show", func(t *testing.T, events []event.Event) string {
		var b reducer.Builder
		for _, e := range events {
			b.Add(e)
		}
		var out bytes.Buffer
		require.NoError(t, render.New(&out, render.Options{}).State(b.State()))
		return out.String()
	}},
}

func live(t *testing.T, events []event.Event, o render.Options) string {
	t.Helper()
	var out bytes.Buffer
	p := render.New(&out, o)
	for _, e := range events {
		require.NoError(t, p.Event(e))
	}
	require.NoError(t, p.Flush())
	return out.String()
}

// TestStories shows each story of testdata in every view. A story is a prose
// head, its events as JSON lines, and what is shown: on a pipe, on a terminal
// (escapes as \e), and by show. Run with -update to rewrite them, and read the
// difference.
func TestStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			story(t, file)
		})
	}
}

func story(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	require.NoError(t, err)
	require.NotEmpty(t, bytes.TrimSpace(ar.Comment), "a story has a prose head")
	want := map[string]string{}
	for _, f := range ar.Files {
		want[f.Name] = string(f.Data)
	}
	events := decode(t, want["events"])
	got := &txtar.Archive{Comment: ar.Comment, Files: ar.Files[:1]}
	for _, v := range views {
		text := strings.NewReplacer("\x1b", `\e`, "\r", `\r`).Replace(v.show(t, events))
		got.Files = append(got.Files, txtar.File{Name: v.name, Data: []byte(text)})
		if !*update {
			require.Equal(t, want[v.name], text, v.name)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o600))
	}
}

func decode(t *testing.T, lines string) []event.Event {
	t.Helper()
	var events []event.Event
	for e, err := range jsonl.Decode(strings.NewReader(lines)) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}
