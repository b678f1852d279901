package codex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/replay"
)

func TestStories(t *testing.T) { recorded.Stories(t) }

func TestSplitAnywhere(t *testing.T) { recorded.SplitAnywhere(t) }

func TestSplitOnce(t *testing.T) { recorded.SplitOnce(t) }

func TestSameRecordsSameEvents(t *testing.T) { recorded.SameRecordsSameEvents(t) }

func TestUnknownAnywhere(t *testing.T) { recorded.UnknownAnywhere(t) }

func TestCutAnywhere(t *testing.T) { recorded.CutAnywhere(t) }

func TestNothingMalformed(t *testing.T) { recorded.NothingMalformed(t) }

// The state keeps nothing of a finished turn: its size is that of what is open,
// however long the conversation is.
func TestStateDoesNotGrow(t *testing.T) {
	recorded.StateDoesNotGrow(t, recorded.Rounds(t, "subagent", "tool-"), 1, 20, 10)
}

// Of a subagent that has ended the state keeps only what may be needed when it gets further
// work: no text. A state that an older build stored with its prompt is read.
func TestStateForgetsWhatSubagentsSaid(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a long text ", 1000)
	tr := spoken(t)
	said := func(format string, args ...any) { step(tr, event.DirOut, fmt.Sprintf(format, args...)) }
	said(`{"method":"turn/started","params":{"threadId":"main","turn":{"id":"t"}}}`)
	for n := range 20 {
		call := fmt.Sprintf(`"type":"collabAgentToolCall","tool":"spawnAgent","id":"call-%d","prompt":%q,"receiverThreadIds":["child-%d"]`, n, text, n)
		said(`{"method":"item/started","params":{"threadId":"main","turnId":"t","item":{%s}}}`, call)
		said(`{"method":"item/completed","params":{"threadId":"main","turnId":"t","item":{%s,"status":"completed"}}}`, call)
		said(`{"method":"turn/started","params":{"threadId":"child-%d","turn":{"id":"c-%d"}}}`, n, n)
		said(`{"method":"item/completed","params":{"threadId":"child-%d","turnId":"c-%d","item":{"type":"agentMessage","id":"m-%d","text":%q}}}`, n, n, n, text)
		ended := step(tr, event.DirOut, fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":"child-%d","turn":{"id":"c-%d","status":"completed"}}}`, n, n))
		require.Equal(t, text, *ended[len(ended)-1].Payload.(event.SubagentCompleted).Output)
	}
	state, err := tr.State()
	require.NoError(t, err)
	require.Less(t, len(state), 20*200)
	_, err = New().Translator(adapters.Launch{}, []byte(`{"v":1,"threads":{"child":{"conv":"call","prompt":"look"}}}`))
	require.NoError(t, err)
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m"}}}` + "\n"))
	f.Add([]byte(`{"id":"a-thread","result":{"thread":{"id":"t"}}}` + "\nexit 0\n" + `{"id":7,"method":"item/tool/requestUserInput","params":{"threadId":"t"}}`))
	f.Add([]byte(`{"type":"item.completed","item":{"id":"i","type":"collab_tool_call","tool":"spawn_agent","receiver_thread_ids":["c"]}}` + "\n{\"type\":\"turn.failed\"}"))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"method\":7}\n{\"id\":1,\"method\":\"turn/start\",\"params\":{}}"))
	for _, file := range replay.ReadStories(f) {
		f.Add([]byte(file.Section("records")))
	}
	f.Fuzz(recorded.FuzzRecords)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"type":"event_msg","payload":{"type":"task_started","turn_id":"u"}}`+"\n", `{"type":"session_meta","payload":{"id":"c"}}`)
	f.Add(`{"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"exec_command","arguments":"{}"}}`, "{")
	f.Add("\x00\n"+`{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"c","command":[]}}}`, "")
	for _, file := range replay.ReadStories(f) {
		if sources := recorded.StorySources(file); len(sources) > 0 {
			f.Add(file.Section(sources[0].Path), "")
		}
	}
	f.Fuzz(func(t *testing.T, main, sub string) {
		recorded.FuzzSources(t, memory(event.Main, main), memory("a1", sub))
	})
}

func TestForkAnywhere(t *testing.T) { recorded.ForkAnywhere(t, 150) }
