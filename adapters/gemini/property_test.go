package gemini

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// step translates records from a state on, and gives the events and the state
// after them, both as JSON.
func step(t testing.TB, state []byte, records []event.Record) (events []string, after []byte) {
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

// Cut after any record, carried as JSON, the translation goes on as if it had
// not been cut.
func TestSplitAnywhere(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		records := spool([]process{p})
		whole, final := step(t, nil, records)
		var split []string
		var state []byte
		for _, r := range records {
			var events []string
			events, state = step(t, state, []event.Record{r})
			split = append(split, events...)
		}
		require.Equal(t, whole, split, p.name)
		require.Equal(t, string(final), string(state), p.name)
	}
}

// Cut once, at every record, both halves together are the whole.
func TestSplitOnce(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		records := spool([]process{p})
		whole, _ := step(t, nil, records)
		for cut := 0; cut <= len(records); cut += 1 + len(records)/40 {
			head, state := step(t, nil, records[:cut])
			tail, _ := step(t, state, records[cut:])
			require.Equal(t, whole, append(head, tail...), "%s cut at %d", p.name, cut)
		}
	}
}

func TestSameRecordsSameEvents(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		first, stateA := step(t, nil, p.records)
		second, stateB := step(t, nil, p.records)
		require.Equal(t, first, second, p.name)
		require.Equal(t, string(stateA), string(stateB), p.name)
	}
	for _, tr := range transcripts(t) {
		require.Equal(t, parsed(t, tr.sources), parsed(t, tr.sources), tr.name)
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

// Nothing of a finished turn stays in the state: its size is that of what is
// open, however long the conversation is.
func TestStateDoesNotGrow(t *testing.T) {
	t.Parallel()
	after := func(turns int) int {
		var records []event.Record
		for n := range turns {
			records = append(records, turnRecords(n, 3)...)
		}
		_, state := step(t, nil, append(openingRecords(), records...))
		return len(state)
	}
	require.InDelta(t, after(1), after(200), 20)
}

// Every error of the recordings is one that the agent really had: no line of
// theirs is malformed to us, and none unknown.
func TestNothingMalformed(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		for _, e := range translated(p.records) {
			switch fault := e.Payload.(type) {
			case event.Error:
				require.NotEqual(t, "malformed", fault.Code, p.name)
			case event.Native:
				t.Errorf("%s: unknown: %s", p.name, toJSON(t, fault))
			}
		}
	}
}

// Lines of a kind that nobody knows, wherever they come, are all kept, and
// change nothing else.
func TestUnknownAnywhere(t *testing.T) {
	t.Parallel()
	strange := []string{
		`{"type":"never_heard_of","patch":7,"x":[1]}`,
		`{"jsonrpc":"2.0","method":"never/heard_of","params":{"x":[1]}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"never_heard_of"}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":[7]}`,
		`{"jsonrpc":"2.0","id":"nobody-asked","result":{}}`,
	}
	for _, p := range processes(t) {
		records := spool([]process{p})
		var mixed []event.Record
		for i, r := range records {
			if i%3 == 0 {
				mixed = append(mixed, event.Record{Dir: event.DirOut, Line: strange[i/3%len(strange)], TS: r.TS})
			}
			mixed = append(mixed, r)
		}
		kept := 0
		b := reducer.NewBuilder(reducer.State{})
		for _, e := range translated(mixed) {
			if _, ok := e.Payload.(event.Native); ok {
				kept++
			}
			b.Add(e)
		}
		require.Equal(t, len(mixed)-len(records), kept, p.name)
		require.Equal(t, toJSON(t, foldRecords(t, records)), toJSON(t, b.State()), p.name)
	}
}

func foldRecords(t testing.TB, records []event.Record) reducer.State {
	t.Helper()
	s, err := reducer.Fold(sequence(translated(records)))
	require.NoError(t, err)
	return s
}

// Cut off after any record, the conversation settles: nothing stays open.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		records := spool([]process{p})
		for cut := 0; cut <= len(records); cut += 1 + len(records)/60 {
			for _, b := range foldRecords(t, records[:cut]).Blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s cut at %d", p.name, cut)
				require.NotEqual(t, event.StatusPending, b.Status, "%s cut at %d", p.name, cut)
			}
		}
	}
}

// tidy in pieces is tidy at once, wherever a text is cut.
func FuzzTidy(f *testing.F) {
	f.Add(" a <!-- b --> c ", uint(3))
	f.Add("<!<!-- x -->-- y -->", uint(2))
	f.Add("a\u200b<!--", uint(1))
	f.Add("a -->  b  <", uint(4))
	f.Fuzz(func(t *testing.T, text string, size uint) {
		text = strings.ToValidUTF8(text, "")
		var out, held string
		runes := []rune(text)
		n := int(size%7) + 1
		for len(runes) > 0 {
			k := min(n, len(runes))
			var piece string
			piece, held = tidy(out != "", held, string(runes[:k]), false)
			out += piece
			runes = runes[k:]
		}
		last, _ := tidy(out != "", held, "", true)
		require.Equal(t, tidied(text), out+last)
	})
}

func FuzzTranslate(f *testing.F) {
	for _, r := range append(openingRecords(), turnRecords(1, 2)...) {
		f.Add([]byte(r.Line))
	}
	f.Add([]byte("{\"type\":\"tool_use\",\"tool_id\":\"t\",\"tool_name\":\"invoke_agent\"}\n{\"type\":\"result\"}"))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/prompt\",\"params\":{\"prompt\":[{\"type\":\"text\",\"text\":\"x\"}]}}\nexit\n"))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"jsonrpc\":7}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []event.Record
		dirs := []event.Dir{event.DirOut, event.DirIn, event.DirOut, event.DirErr, event.DirSig}
		for i, line := range strings.Split(string(data), "\n") {
			records = append(records, event.Record{Dir: dirs[(i+len(line))%len(dirs)], Line: line})
		}
		whole, _ := step(t, nil, records)
		again, _ := step(t, nil, records)
		require.Equal(t, whole, again)
		head, state := step(t, nil, records[:len(records)/2])
		tail, _ := step(t, state, records[len(records)/2:])
		require.Equal(t, whole, append(head, tail...))
	})
}

func FuzzParse(f *testing.F) {
	f.Add(header+"\n"+header+"\n"+`{"id":"u","type":"user","content":[{"text":"hi"}]}`+"\n", `{"id":"a","type":"gemini","content":"x"}`)
	f.Add(`{"id":"g","type":"gemini","content":"","toolCalls":[{"id":"invoke_agent__1","name":"invoke_agent","args":{"prompt":"p"},"status":"success"}]}`, "{")
	f.Add("\x00\n{\"$set\":{\"messages\":[]}}", `{"id":"a","type":"user","content":"p"}`)
	f.Fuzz(func(t *testing.T, main, sub string) {
		sources := []adapters.Source{memory(event.Main, main), memory("a1", sub)}
		var first, second []string
		for e, err := range New().Parse(sources) {
			if err == nil {
				first = append(first, toJSON(t, e))
			}
		}
		for e, err := range New().Parse(sources) {
			if err == nil {
				second = append(second, toJSON(t, e))
			}
		}
		require.Equal(t, first, second)
	})
}
