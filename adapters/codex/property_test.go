package codex

import (
	"testing"

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
