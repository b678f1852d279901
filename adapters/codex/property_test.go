package codex

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
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

// Cut once, at every record, both halves together are the whole: a state that
// only works when it is carried at every record would pass the test above.
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
	all := processes(t)
	turns := func(n int) int {
		var records []event.Record
		for range n {
			for _, p := range all {
				if strings.HasPrefix(p.name, "subagent") || strings.HasPrefix(p.name, "tool-") {
					records = append(records, spool([]process{p})...)
				}
			}
		}
		_, state := step(t, nil, records)
		return len(state)
	}
	require.InDelta(t, turns(1), turns(20), 10)
}

// Every error of the recordings is one that the agent really had: no line of
// theirs is malformed to us.
func TestNothingMalformed(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		for e, err := range adapters.Translate(New(), sequence(p.records), adapters.TranslateOptions{Prompt: p.prompt}) {
			require.NoError(t, err)
			if fault, ok := e.Payload.(event.Error); ok {
				require.NotEqual(t, "malformed", fault.Code, p.name)
			}
		}
	}
}

func memory(id, text string) adapters.Source {
	return adapters.Source{
		Transcript: adapters.Transcript{ID: id, Path: id + ".jsonl", Kind: adapters.Append},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m"}}}` + "\n"))
	f.Add([]byte(`{"id":"a-thread","result":{"thread":{"id":"t"}}}` + "\nexit 0\n" + `{"id":7,"method":"item/tool/requestUserInput","params":{"threadId":"t"}}`))
	f.Add([]byte(`{"type":"item.completed","item":{"id":"i","type":"collab_tool_call","tool":"spawn_agent","receiver_thread_ids":["c"]}}` + "\n{\"type\":\"turn.failed\"}"))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"method\":7}\n{\"id\":1,\"method\":\"turn/start\",\"params\":{}}"))
	for _, file := range storyFiles(f) {
		f.Add([]byte(file.get("records")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []event.Record
		dirs := []event.Dir{event.DirOut, event.DirIn, event.DirOut, event.DirErr, event.DirSig}
		for i, line := range strings.Split(string(data), "\n") {
			dir := dirs[(i+len(line))%len(dirs)]
			if told, rest, ok := strings.Cut(line, " "); ok && len(told) <= 3 {
				dir, line = event.Dir(told), rest
			}
			records = append(records, event.Record{Dir: dir, Line: line})
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
	f.Add(`{"type":"event_msg","payload":{"type":"task_started","turn_id":"u"}}`+"\n", `{"type":"session_meta","payload":{"id":"c"}}`)
	f.Add(`{"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"exec_command","arguments":"{}"}}`, "{")
	f.Add("\x00\n"+`{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"c","command":[]}}}`, "")
	for _, file := range storyFiles(f) {
		if sources := storySources(file); len(sources) > 0 {
			f.Add(file.get(sources[0].Path), "")
		}
	}
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

func storyFiles(t testing.TB) []*archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	var out []*archive
	for _, file := range files {
		out = append(out, readArchive(t, file))
	}
	return out
}
