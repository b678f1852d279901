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
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Agent is an adapter with the details that its tests need.
type Agent struct {
	Adapter adapters.Adapter
	// Runs returns the runs of the recordings. Required by the property tests.
	Runs func(t testing.TB) []Run
	// Transcripts returns the transcripts of the recordings. Default: none.
	Transcripts func(t testing.TB) []Transcript
	// Strange are lines that no version of the agent prints; see
	// [Agent.UnknownAnywhere].
	Strange []Strange
	// AllKnown: no line of the recordings is unknown to the adapter. Default: unknown
	// lines are allowed.
	AllKnown bool
	// EmptyStays: a text without content when the agent ended stays pending, because
	// empty blocks are left out of a conversation anyway. Default: nothing stays
	// pending.
	EmptyStays bool

	// StorySource returns the transcript in a section of a story, if it is one.
	// Default: stories have no transcripts.
	StorySource func(name, text string) (adapters.Source, bool)
	// StoryRules compare a story's two sides. Default: the zero value.
	StoryRules parity.Rules
	// StoryDue: the messages that the translator makes due are part of a story.
	// Default: other tests of the adapter cover them.
	StoryDue bool
}

// Live returns the state folded from records and from the side transcripts.
func (a Agent) Live(t testing.TB, records []traffic.Record, side ...adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(a.Adapter, Sequence(records), adapters.TranslateOptions{Side: side}))
	require.NoError(t, err)
	return s
}

// Parsed returns the state folded from transcripts.
func (a Agent) Parsed(t testing.TB, sources ...adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(a.Adapter.Parse(sources))
	require.NoError(t, err)
	return s
}

// ParsedEvents returns the events of transcripts, each as JSON.
func (a Agent) ParsedEvents(t testing.TB, sources ...adapters.Source) []string {
	t.Helper()
	var events []string
	for e, err := range a.Adapter.Parse(sources) {
		require.NoError(t, err)
		events = append(events, JSON(t, e))
	}
	return events
}

// ParseAll returns the state folded from the valid part of transcripts, and the errors
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

// Translator creates a translator that continues from a state.
func (a Agent) Translator(t testing.TB, state json.RawMessage) adapters.Translator {
	t.Helper()
	tr, err := a.Adapter.Translator(adapters.Launch{}, state)
	require.NoError(t, err)
	return tr
}

// Step translates records from a state, and returns the events and the state after
// them, both as JSON.
func (a Agent) Step(t testing.TB, state []byte, records []traffic.Record) (events []string, after []byte) {
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

// Sequence returns the items as a sequence without errors.
func Sequence[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Memory returns a transcript with a text as its content.
func Memory(of adapters.Transcript, text string) adapters.Source {
	return adapters.Source{Transcript: of, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// CountBlocks returns the number of blocks of all conversations.
func CountBlocks(s reducer.State) int {
	n := len(s.Blocks)
	for _, sub := range s.Subagents {
		n += len(sub.Blocks)
	}
	return n
}

// Kinds returns the types of events.
func Kinds(events []event.Event) []event.Type {
	var out []event.Type
	for _, e := range events {
		out = append(out, e.Type())
	}
	return out
}

// JSON returns v as JSON on one line.
func JSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// Pretty returns v as indented JSON.
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
