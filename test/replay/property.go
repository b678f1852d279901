package replay

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
)

// SplitAnywhere checks that a translation that is cut after every record, with its
// state carried as JSON, produces the same events at each record as one that is never
// cut.
func (a Agent) SplitAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		whole := a.Translator(t, nil)
		var state json.RawMessage
		for i, record := range r.Spool() {
			part := a.Translator(t, state)
			require.Equal(t, encoded(t, whole.Step(record)), encoded(t, part.Step(record)), "%s: record %d", r.Name, i)
			var err error
			state, err = part.State()
			require.NoError(t, err)
			require.True(t, json.Valid(state), r.Name)
		}
		final, err := whole.State()
		require.NoError(t, err)
		require.Equal(t, string(final), string(state), r.Name)
	}
}

// SplitOnce checks that the two halves of a translation that is cut once, at any
// record, are the whole. [Agent.SplitAnywhere] doesn't find a state that works only if
// it is carried at every record.
func (a Agent) SplitOnce(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		records := r.Spool()
		whole, _ := a.Step(t, nil, records)
		for cut := 0; cut <= len(records); cut += 1 + len(records)/40 {
			head, state := a.Step(t, nil, records[:cut])
			tail, _ := a.Step(t, state, records[cut:])
			require.Equal(t, whole, append(head, tail...), "%s cut at %d", r.Name, cut)
		}
	}
}

// SameRecordsSameEvents checks that translating and parsing are repeatable.
func (a Agent) SameRecordsSameEvents(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		first, stateA := a.Step(t, nil, r.Records)
		second, stateB := a.Step(t, nil, r.Records)
		require.Equal(t, first, second, r.Name)
		require.Equal(t, string(stateA), string(stateB), r.Name)
	}
	if a.Transcripts == nil {
		return
	}
	for _, tr := range a.Transcripts(t) {
		require.Equal(t, a.ParsedEvents(t, tr.Sources...), a.ParsedEvents(t, tr.Sources...), tr.Name)
	}
}

// SameAtEveryState checks, for each state that the records pass, that one record at
// that state produces the same events again, and the same as one translator for all
// records: the state has everything that the translator needs.
func (a Agent) SameAtEveryState(t *testing.T, records []traffic.Record, what string) {
	t.Helper()
	var state []byte
	var all []string
	for _, r := range records {
		once, after := a.Step(t, state, []traffic.Record{r})
		again, _ := a.Step(t, state, []traffic.Record{r})
		require.Equal(t, once, again, what)
		state, all = after, append(all, once...)
	}
	whole, _ := a.Step(t, nil, records)
	require.Equal(t, whole, all, what)
}

// StateDoesNotGrow checks that the state after many turns is as large as after few,
// within slack bytes. said returns the records of that many turns.
func (a Agent) StateDoesNotGrow(t *testing.T, said func(turns int) []traffic.Record, few, many int, slack float64) {
	t.Parallel()
	size := func(turns int) int {
		_, state := a.Step(t, nil, said(turns))
		return len(state)
	}
	require.InDelta(t, size(few), size(many), slack)
}

// Rounds returns the runs of recordings whose names have one of the prefixes, repeated
// n times.
func (a Agent) Rounds(t *testing.T, prefixes ...string) func(n int) []traffic.Record {
	var round []traffic.Record
	for _, r := range a.Runs(t) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(r.Name, prefix) {
				round = append(round, r.Spool()...)
			}
		}
	}
	return func(n int) []traffic.Record {
		var out []traffic.Record
		for range n {
			out = append(out, round...)
		}
		return out
	}
}

// NothingMalformed checks that every error in the recordings is the agent's own: no
// line is malformed for the adapter, and with AllKnown none is unknown.
func (a Agent) NothingMalformed(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		for e, err := range adapters.Translate(a.Adapter, Sequence(r.Records), adapters.TranslateOptions{Prompt: r.Prompt}) {
			require.NoError(t, err)
			switch p := e.Payload.(type) {
			case event.Error:
				require.NotEqual(t, "malformed", p.Code, "%s: %s", r.Name, p.Data)
			case event.Native:
				require.False(t, a.AllKnown, "%s: unknown: %s", r.Name, JSON(t, p))
			}
		}
	}
}

// Strange is a line that no version of the agent prints.
type Strange struct {
	Line string
	// Kind is the kind of the event that keeps the line.
	Kind string
}

// UnknownAnywhere checks that unknown lines, wherever they are inserted, are all kept
// and change nothing else.
func (a Agent) UnknownAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		records := r.Spool()
		var mixed []traffic.Record
		for i, record := range records {
			if i%3 == 0 {
				strange := a.Strange[i/3%len(a.Strange)]
				mixed = append(mixed, traffic.Record{Dir: event.DirOut, Line: strange.Line, TS: record.TS})
			}
			mixed = append(mixed, record)
		}
		kept := 0
		b := reducer.NewBuilder(reducer.State{})
		for e, err := range adapters.Translate(a.Adapter, Sequence(mixed), adapters.TranslateOptions{}) {
			require.NoError(t, err)
			if a.isStrange(e) {
				kept++
			}
			b.Add(e)
		}
		require.Equal(t, len(mixed)-len(records), kept, r.Name)
		require.Equal(t, JSON(t, a.Live(t, records)), JSON(t, b.State()), r.Name)
	}
}

// isStrange reports whether an event keeps a strange line unchanged.
func (a Agent) isStrange(e event.Event) bool {
	n, ok := e.Payload.(event.Native)
	if !ok {
		return false
	}
	for _, s := range a.Strange {
		if s.Line == string(n.Raw) && s.Kind == n.Kind {
			return true
		}
	}
	return false
}

// CutAnywhere checks that nothing stays open in a conversation that ends after any
// record.
func (a Agent) CutAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range a.Runs(t) {
		records := r.Spool()
		for cut := 0; cut <= len(records); cut += 1 + len(records)/60 {
			for _, b := range a.Live(t, records[:cut]).Blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s cut at %d", r.Name, cut)
				if said := b.Content != nil && *b.Content != ""; said || !a.EmptyStays {
					require.NotEqual(t, event.StatusPending, b.Status, "%s cut at %d", r.Name, cut)
				}
			}
		}
	}
}

// StopsWhenAsked checks that the caller of Parse may stop at once.
func (a Agent) StopsWhenAsked(t *testing.T, sources ...adapters.Source) {
	t.Parallel()
	n := 0
	for range a.Adapter.Parse(sources) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

// ReadError checks that the error for an unreadable transcript names the file and the
// line.
func (a Agent) ReadError(t *testing.T) {
	t.Parallel()
	_, errs := a.ParseAll(adapters.Source{
		Transcript: adapters.Transcript{ID: event.Main, Path: "m.jsonl"},
		Open: func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.ErrReader(errors.New("disk on fire"))), nil
		},
	})
	require.NotEmpty(t, errs)
	require.ErrorContains(t, errs[len(errs)-1], "m.jsonl: line 1: disk on fire")
}
