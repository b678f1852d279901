package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Agent is an adapter with what only its tests know.
type Agent struct {
	Adapter adapters.Adapter
	// Runs are those of the recordings. Needed by the tests of properties.
	Runs func(t testing.TB) []Run
	// Transcripts are those of the recordings. Default: none.
	Transcripts func(t testing.TB) []Transcript
	// Strange are lines that no version of the agent says; see
	// [Agent.UnknownAnywhere].
	Strange []Strange
	// AllKnown: no line of the recordings is unknown to the adapter. Default: a
	// recording may have lines that mean nothing.
	AllKnown bool
	// EmptyStays: a text that was begun and said nothing when the agent ended
	// stays pending, because empty blocks are left out of a conversation anyway.
	// Default: nothing stays pending.
	EmptyStays bool

	// StorySource takes a section of a story for a transcript. Default: stories
	// have no transcripts.
	StorySource func(name, text string) (adapters.Source, bool)
	// StoryRules compare a story's two sides. Default: strict.
	StoryRules parity.Rules
	// StoryDue: what the translator wants written of its own accord is part of a
	// story. Default: the other tests of the adapter say it all.
	StoryDue bool
}

// Live is the state that records make; what side holds is told by it alone.
func (a Agent) Live(t testing.TB, records []event.Record, side ...adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(a.Adapter, Sequence(records), adapters.TranslateOptions{Side: side}))
	require.NoError(t, err)
	return s
}

// Parsed is the state that transcripts make.
func (a Agent) Parsed(t testing.TB, sources ...adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(a.Adapter.Parse(sources))
	require.NoError(t, err)
	return s
}

// ParsedEvents are the events of transcripts, each as JSON.
func (a Agent) ParsedEvents(t testing.TB, sources ...adapters.Source) []string {
	t.Helper()
	var events []string
	for e, err := range a.Adapter.Parse(sources) {
		require.NoError(t, err)
		events = append(events, JSON(t, e))
	}
	return events
}

// ParseAll is the state that what is good of transcripts makes, and the errors
// of the rest.
func (a Agent) ParseAll(sources ...adapters.Source) (reducer.State, []error) {
	b := reducer.NewBuilder(reducer.State{})
	var errs []error
	for e, err := range a.Adapter.Parse(sources) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.Add(e)
	}
	return b.State(), errs
}

// Translator goes on from a state.
func (a Agent) Translator(t testing.TB, state json.RawMessage) adapters.Translator {
	t.Helper()
	tr, err := a.Adapter.Translator(adapters.Launch{}, state)
	require.NoError(t, err)
	return tr
}

// Step translates records from a state on, and gives the events and the state
// after them, both as JSON.
func (a Agent) Step(t testing.TB, state []byte, records []event.Record) (events []string, after []byte) {
	t.Helper()
	tr := a.Translator(t, state)
	for _, r := range records {
		events = append(events, encoded(t, tr.Step(r))...)
	}
	after, err := tr.State()
	require.NoError(t, err)
	return events, after
}

func encoded(t testing.TB, events []event.Event) []string {
	t.Helper()
	var out []string
	for _, e := range events {
		out = append(out, JSON(t, e))
	}
	return out
}

// Sequence gives what there is, without an error.
func Sequence[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Memory is a transcript whose content is a text.
func Memory(of adapters.Transcript, text string) adapters.Source {
	return adapters.Source{Transcript: of, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// CountBlocks counts those of all conversations.
func CountBlocks(s reducer.State) int {
	n := len(s.Blocks)
	for _, sub := range s.Subagents {
		n += len(sub.Blocks)
	}
	return n
}

// Kinds are the types of events.
func Kinds(events []event.Event) []event.Type {
	var out []event.Type
	for _, e := range events {
		out = append(out, e.Type())
	}
	return out
}

// JSON is v in one line.
func JSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// Pretty is v as JSON for people.
func Pretty(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, json.Indent(&buf, []byte(JSON(t, v)), "", " "))
	return buf.String() + "\n"
}

// Imported returns the files that an exporter makes of sources, by their paths in the home.
func Imported(e adapters.Exporter, l adapters.Launch, sources ...adapters.Source) (contents map[string][]byte, err error) {
	scratch, err := os.MkdirTemp("", "imported")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	files, err := e.Import(sources, l, scratch)
	if err != nil {
		return nil, err
	}
	contents = map[string][]byte{}
	for path, file := range files {
		if contents[path], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return contents, nil
}
