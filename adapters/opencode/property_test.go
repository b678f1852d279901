package opencode

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// stepped translates records from a state on, and gives the events and the state
// after them, both as JSON.
func stepped(t testing.TB, state []byte, records []event.Record) (events []string, after []byte) {
	t.Helper()
	tr, err := New().Translator(adapters.Launch{}, state)
	require.NoError(t, err)
	for _, r := range records {
		for _, e := range tr.Step(r) {
			events = append(events, toJSON(t, e))
		}
	}
	after, err = tr.State()
	require.NoError(t, err)
	return events, after
}

// whole is a run with its prompt and its end.
func (r run) whole() []event.Record {
	var out []event.Record
	if r.prompt != "" {
		out = append(out, event.Record{Dir: event.DirIn, Line: adapters.PromptLine(r.prompt)})
	}
	out = append(out, r.records...)
	return append(out, event.Record{Dir: event.DirSig, Line: "exit 0"})
}

// Cut after any record, carried as JSON, the translation goes on as if it had
// not been cut.
func TestSplitAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range runs(t) {
		records := r.whole()
		whole, final := stepped(t, nil, records)
		var split []string
		var state []byte
		for _, rec := range records {
			var events []string
			events, state = stepped(t, state, []event.Record{rec})
			split = append(split, events...)
		}
		require.Equal(t, whole, split, r.name())
		require.Equal(t, string(final), string(state), r.name())
	}
}

// Cut once, at every record, both halves together are the whole: a state that
// only works when it is carried at every record would pass the test above.
func TestSplitOnce(t *testing.T) {
	t.Parallel()
	for _, r := range runs(t) {
		records := r.whole()
		whole, _ := stepped(t, nil, records)
		for cut := 0; cut <= len(records); cut += 1 + len(records)/40 {
			head, state := stepped(t, nil, records[:cut])
			tail, _ := stepped(t, state, records[cut:])
			require.Equal(t, whole, append(head, tail...), "%s cut at %d", r.name(), cut)
		}
	}
}

func TestSameRecordsSameEvents(t *testing.T) {
	t.Parallel()
	for _, r := range runs(t) {
		first, stateA := stepped(t, nil, r.records)
		second, stateB := stepped(t, nil, r.records)
		require.Equal(t, first, second, r.name())
		require.Equal(t, string(stateA), string(stateB), r.name())
		if home := filepath.Join(r.dir, "transcripts"); exists(home) {
			sources, err := adapters.SourcesFrom(New(), home)
			require.NoError(t, err)
			require.Equal(t, parsed(t, sources), parsed(t, sources), r.name())
		}
	}
}

func parsed(t testing.TB, sources []adapters.Source) []string {
	t.Helper()
	var events []string
	for e, err := range New().Parse(sources) {
		require.NoError(t, err)
		events = append(events, toJSON(t, e))
	}
	return events
}

// Nothing of a finished turn stays in the state but the little that late news
// need: its size does not grow with the conversation.
func TestStateDoesNotGrow(t *testing.T) {
	t.Parallel()
	turns := func(n int) int {
		_, state := stepped(t, nil, conversationOf(n))
		return len(state)
	}
	require.InDelta(t, turns(300), turns(1500), 200)
}

// Every error of the recordings is one that the agent really had: no line of
// theirs is malformed to us, the requests included.
func TestNothingMalformed(t *testing.T) {
	t.Parallel()
	for _, r := range runs(t) {
		records := r.records
		for _, name := range []string{"http.jsonl", "timed.jsonl"} {
			if file := filepath.Join(r.dir, r.prefix+name); exists(file) {
				records = append(records, readRecords(t, file)...)
			}
		}
		for e, err := range adapters.Translate(New(), sequence(records), adapters.TranslateOptions{Prompt: r.prompt}) {
			require.NoError(t, err)
			if fault, ok := e.Payload.(event.Error); ok {
				require.NotEqual(t, "malformed", fault.Code, "%s: %s", r.name(), fault.Data)
			}
			if n, ok := e.Payload.(event.Native); ok {
				t.Logf("%s: unknown: %s", r.name(), n.Kind)
			}
		}
	}
}

// Events of a kind that nobody knows, wherever they come, are all kept, and
// change nothing else.
func TestUnknownAnywhere(t *testing.T) {
	t.Parallel()
	strange := event.Record{Dir: event.DirOut, Line: `{"id":"evt_x","type":"never.heard","properties":{"sessionID":7,"part":[1],"status":"x"}}`}
	for _, r := range runs(t) {
		var mixed []event.Record
		for i, rec := range r.whole() {
			if i%7 == 0 {
				mixed = append(mixed, strange)
			}
			mixed = append(mixed, rec)
		}
		kept := 0
		b := reducer.NewBuilder(reducer.State{})
		for e, err := range adapters.Translate(New(), sequence(mixed), adapters.TranslateOptions{}) {
			require.NoError(t, err)
			if n, ok := e.Payload.(event.Native); ok && n.Kind == "never.heard" {
				kept++
			}
			b.Add(e)
		}
		require.Equal(t, len(mixed)-len(r.whole()), kept, r.name())
		require.Equal(t, toJSON(t, foldLive(t, "", r.whole())), toJSON(t, b.State()), r.name())
	}
}

// Cut off after any record, the conversation settles: nothing stays open.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, r := range runs(t) {
		records := r.whole()
		for cut := 0; cut <= len(records); cut += 1 + len(records)/60 {
			s := foldLive(t, "", records[:cut])
			for _, b := range s.Blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s cut at %d", r.name(), cut)
			}
		}
	}
}

func memory(path, text string) adapters.Source {
	return adapters.Source{
		Transcript: adapters.Transcript{ID: event.Main, Path: path, Kind: adapters.Snapshot},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m","role":"assistant"}}}` + "\n" +
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":""}}}` + "\n" +
		`{"type":"message.part.delta","properties":{"sessionID":"s","partID":"p","field":"text","delta":"x"}}` + "\nexit\n"))
	f.Add([]byte(`{"type":"message.part.updated","properties":{"part":{"id":"p","messageID":"m","sessionID":"s","type":"tool","tool":"task","callID":"c","state":{"status":"running","input":{},"metadata":{"sessionId":"k"}}}}}` +
		"\n{\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"k\"}}"))
	f.Add([]byte(`{"type":"tool_use","sessionID":"s","part":{"type":"tool","id":"p"}}` + "\n{\"type\":\"step_finish\",\"part\":{\"type\":\"step-finish\"}}"))
	f.Add([]byte(`{"id":"r","method":"POST","path":"/session/s/prompt_async","body":{}}` + "\n" + `{"type":"sojourn.response","id":"r","error":"x"}`))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"type\":7}\nevents again\nevents lost"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []event.Record
		dirs := []event.Dir{event.DirOut, event.DirIn, event.DirOut, event.DirErr, event.DirSig}
		for i, line := range strings.Split(string(data), "\n") {
			records = append(records, event.Record{Dir: dirs[(i+len(line))%len(dirs)], Line: line})
		}
		whole, _ := stepped(t, nil, records)
		again, _ := stepped(t, nil, records)
		require.Equal(t, whole, again)
		head, state := stepped(t, nil, records[:len(records)/2])
		tail, _ := stepped(t, state, records[len(records)/2:])
		require.Equal(t, whole, append(head, tail...))
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"table":"part","rowid":1,"row":{"id":"p","message_id":"m","session_id":"s","data":"{\"type\":\"text\",\"text\":\"x\"}"}}` + "\n")
	f.Add(`{"info":{"id":"s"},"messages":[{"info":{"id":"m","role":"user"},"parts":[{"type":"tool"}]}]}`)
	f.Add("SQLite format 3\x00")
	f.Add("[]\n{")
	f.Fuzz(func(t *testing.T, text string) {
		var first, second []string
		for e, err := range New().Parse([]adapters.Source{memory("x", text)}) {
			if err == nil {
				first = append(first, toJSON(t, e))
			}
		}
		for e, err := range New().Parse([]adapters.Source{memory("x", text)}) {
			if err == nil {
				second = append(second, toJSON(t, e))
			}
		}
		require.Equal(t, first, second)
	})
}
