package gemini

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
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
	recorded.StateDoesNotGrow(t, func(turns int) []traffic.Record {
		records := openingRecords()
		for n := range turns {
			records = append(records, turnRecords(n, 3)...)
		}
		return records
	}, 1, 200, 20)
}

// tidy in pieces equals tidy at once, wherever a text is cut.
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
	f.Fuzz(recorded.FuzzRecords)
}

func FuzzParse(f *testing.F) {
	f.Add(header+"\n"+header+"\n"+`{"id":"u","type":"user","content":[{"text":"hi"}]}`+"\n", `{"id":"a","type":"gemini","content":"x"}`)
	f.Add(`{"id":"g","type":"gemini","content":"","toolCalls":[{"id":"invoke_agent__1","name":"invoke_agent","args":{"prompt":"p"},"status":"success"}]}`, "{")
	f.Add("\x00\n{\"$set\":{\"messages\":[]}}", `{"id":"a","type":"user","content":"p"}`)
	f.Fuzz(func(t *testing.T, main, sub string) {
		recorded.FuzzSources(t, memory(event.Main, main), memory("a1", sub))
	})
}

func TestForkAnywhere(t *testing.T) { recorded.ForkAnywhere(t, 100) }
