package claude

import (
	"testing"

	"github.com/sojourn-run/sojourn/event"
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
	f.Add([]byte("{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}\n"))
	f.Add([]byte(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text"}}}` + "\nexit\n"))
	f.Add([]byte(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]}}` + "\n{\"type\":\"result\"}"))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"type\":7}"))
	f.Fuzz(recorded.FuzzRecords)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"type":"user","uuid":"u","message":{"content":"hi"}}`+"\n", `{"type":"assistant","uuid":"a","message":{"content":"x"}}`)
	f.Add(`{"type":"assistant","uuid":"a","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Agent","input":{}}]}}`, "{")
	f.Add(`{"type":"assistant","uuid":"a","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Task","input":{"prompt":"p"}}]}}`+"\n"+
		`{"type":"user","uuid":"s","isSidechain":true,"parentUuid":null,"message":{"content":"p"}}`+"\n"+`{"type":"assistant","isSidechain":true,"parentUuid":"s"}`,
		`{"type":"user","isSidechain":true,"message":{"content":"Warmup"}}`)
	f.Add("\x00\n{\"type\":\"system\",\"subtype\":\"local_command\",\"content\":\"/x\"}", "")
	f.Fuzz(func(t *testing.T, main, sub string) {
		recorded.FuzzSources(t, memory(event.Main, main), memory("a1", sub))
	})
}

func TestForkAnywhere(t *testing.T) { recorded.ForkAnywhere(t, 250) }
