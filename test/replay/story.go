package replay

import (
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
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
)

var rewrite = flag.Bool("rewrite", false, "write the events and states of the stories anew")

// Story is a conversation with the agent: prose, its records, and the events and state
// that they become.
type Story struct {
	// Path is the file's path, Name its name without the extension.
	Path, Name string
	archive    *txtar.Archive
}

// Section returns the text of a section of the file, "" if there is none.
func (s *Story) Section(name string) string {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func (s *Story) set(name, text string) {
	for i, f := range s.archive.Files {
		if f.Name == name {
			s.archive.Files[i].Data = []byte(text)
			return
		}
	}
	s.archive.Files = append(s.archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

// ReadStories reads all stories of the adapter.
func ReadStories(t testing.TB) []*Story {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []*Story
	for _, file := range files {
		out = append(out, ReadStory(t, strings.TrimSuffix(filepath.Base(file), ".txtar")))
	}
	return out
}

// ReadStory reads the adapter's story with that name.
func ReadStory(t testing.TB, name string) *Story {
	t.Helper()
	path := filepath.Join("testdata", name+".txtar")
	archive, err := txtar.ParseFile(path)
	require.NoError(t, err)
	return &Story{Path: path, Name: name, archive: archive}
}

// Stories checks that each story's records become the events and state in the file. If
// the story has transcripts, they must produce the same state.
//
// If this test fails, run it with -rewrite and read the difference. Keep it only if it
// is understood and wanted.
func (a Agent) Stories(t *testing.T) {
	t.Parallel()
	for _, s := range ReadStories(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			a.tell(t, s)
		})
	}
}

func (a Agent) tell(t *testing.T, s *Story) {
	require.NotEmpty(t, s.archive.Comment, "a story begins with what it is about")
	events, state := a.play(t, s)
	if *rewrite {
		s.set("events", events)
		s.set("state", Pretty(t, state))
		require.NoError(t, os.WriteFile(s.Path, txtar.Format(s.archive), 0o644))
	}
	require.Equal(t, s.Section("events"), events)
	require.Equal(t, s.Section("state"), Pretty(t, state))
	sources := a.StorySources(s)
	require.Len(t, s.archive.Files, len(sources)+3, "records, events, a state, and what else is a transcript")
	if len(sources) > 0 {
		Same(t, state, a.Parsed(t, sources...), a.StoryRules)
	}
}

// play returns a story's events, one per line, and the state that they fold to.
func (a Agent) play(t *testing.T, s *Story) (string, reducer.State) {
	t.Helper()
	tr := a.Translator(t, nil)
	var out strings.Builder
	b := reducer.NewBuilder(reducer.State{})
	for _, r := range s.records(t) {
		for _, e := range tr.Step(r) {
			b.Add(e)
			fmt.Fprintf(&out, "%s %s %s\n", e.Context.Conversation(), e.Type(), JSON(t, e.Payload))
		}
		if !a.StoryDue {
			continue
		}
		for _, m := range tr.Due() {
			fmt.Fprintf(&out, "due %s\n", m.Data)
		}
	}
	return out.String(), b.State()
}

// records parses the story's records, each a direction and a native line.
func (s *Story) records(t testing.TB) []traffic.Record {
	t.Helper()
	text := strings.TrimSpace(s.Section("records"))
	require.NotEmpty(t, text, "%s has no records", s.Name)
	var out []traffic.Record
	for _, l := range strings.Split(text, "\n") {
		dir, line, _ := strings.Cut(l, " ")
		out = append(out, traffic.Record{Dir: event.Dir(dir), Line: line})
	}
	return out
}

// StorySources returns a story's transcripts.
func (a Agent) StorySources(s *Story) []adapters.Source {
	var out []adapters.Source
	for _, f := range s.archive.Files {
		if a.StorySource == nil {
			break
		}
		if src, is := a.StorySource(f.Name, string(f.Data)); is {
			out = append(out, src)
		}
	}
	return out
}

// Told returns the events of the records of a story.
func (a Agent) Told(t testing.TB, story string) []event.Event {
	t.Helper()
	tr := a.Translator(t, nil)
	var out []event.Event
	for _, r := range ReadStory(t, story).records(t) {
		out = append(out, tr.Step(r)...)
	}
	return out
}
