package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
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

// recording is a real exchange with some program over the protocol.
type recording struct {
	name    string
	records []event.Record
}

// recordings reads those of all agents that speak the protocol: it tells by the
// lines, not by the agent.
func recordings(t testing.TB) []recording {
	t.Helper()
	shared := os.Getenv("SOJOURN_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	root := filepath.Join(shared, "agents", "recordings")
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "*timed.jsonl"))
	require.NoError(t, err)
	var out []recording
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if !bytes.Contains(data, []byte(`session/prompt`)) || !bytes.Contains(data, []byte(`protocolVersion`)) {
			continue
		}
		name, err := filepath.Rel(root, file)
		require.NoError(t, err)
		r := recording{name: strings.TrimSuffix(filepath.ToSlash(name), "timed.jsonl")}
		for rec, err := range event.DecodeRecords(bytes.NewReader(data), event.RecordOptions{}) {
			require.NoError(t, err)
			r.records = append(r.records, rec)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		t.Skip("no recordings: set SOJOURN_SHARED to the folder that has agents/recordings")
	}
	return out
}

// kept are the records as the recorder would have kept them: what went over
// stdin and stdout.
func kept(records []event.Record) string {
	var b []byte
	for _, r := range records {
		if r.Dir == event.DirIn || r.Dir == event.DirOut {
			b = append(event.AppendRecord(b, r), '\n')
		}
	}
	return string(b)
}

func memory(id, text string) adapters.Source {
	return adapters.Source{
		Transcript: adapters.Transcript{ID: id, Path: recordFile, Kind: adapters.Append},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

func sequence[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func foldLive(t testing.TB, records []event.Record) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(New(), sequence(records), adapters.TranslateOptions{}))
	require.NoError(t, err)
	return s
}

func foldParsed(t testing.TB, text string) reducer.State {
	t.Helper()
	s, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, text)}))
	require.NoError(t, err)
	return s
}

// For every recording of the protocol, folding what was said live gives what
// the recorder's file holds.
func TestParityRecordings(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		diffs, err := parity.Compare(foldLive(t, r.records), foldParsed(t, kept(r.records)), parity.Rules{})
		require.NoError(t, err)
		t.Logf("%-60s %d records, %d blocks, %d differences", r.name, len(r.records), len(foldParsed(t, kept(r.records)).Blocks), len(diffs))
		for _, d := range diffs {
			t.Errorf("%s: %s", r.name, d)
		}
	}
}

// A kill at any place in a recording leaves both sides equal.
func TestParityCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		step := max(1, len(r.records)/40)
		for cut := 0; cut < len(r.records); cut += step {
			some := r.records[:cut]
			diffs, err := parity.Compare(foldLive(t, some), foldParsed(t, kept(some)), parity.Rules{})
			require.NoError(t, err)
			require.Empty(t, diffs, "%s cut at %d", r.name, cut)
		}
	}
}

// One translator after the other, each from the state of the one before, gives
// the events of a single one; the state is JSON.
func TestSplitAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		whole, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		var state json.RawMessage
		for i, rec := range r.records {
			part, err := New().Translator(adapters.Launch{}, state)
			require.NoError(t, err)
			require.Equal(t, encodeAll(t, whole.Step(rec)), encodeAll(t, part.Step(rec)), "%s: record %d", r.name, i)
			state, err = part.State()
			require.NoError(t, err)
			require.True(t, json.Valid(state))
		}
	}
}

func encodeAll(t testing.TB, events []event.Event) string {
	t.Helper()
	var b []byte
	for _, e := range events {
		var err error
		b, err = event.AppendEvent(b, e)
		require.NoError(t, err)
		b = append(b, '\n')
	}
	return string(b)
}

// What a real program said over the protocol, in the host's terms.
func TestRecordedOpenCode(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		if !strings.HasPrefix(r.name, "opencode/acp-basic/") || strings.HasSuffix(r.name, "load-") {
			continue
		}
		s := foldLive(t, r.records)
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
	t.Skip("no recording of opencode acp")
}
