package gemini

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

const session = "4eb4a27f-526b-4f6c-baf6-db005b075c2c"

// header is the first line of a chat file.
const header = `{"sessionId":"` + session + `","projectHash":"36ae","startTime":"2026-01-02T03:04:05.678Z","lastUpdated":"2026-01-02T03:04:05.678Z","kind":"main"}`

func in(format string, args ...any) traffic.Record {
	return traffic.Record{Dir: event.DirIn, Line: fmt.Sprintf(format, args...)}
}

func out(format string, args ...any) traffic.Record {
	return traffic.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)}
}

func updated(body string) traffic.Record {
	return out(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`, session, body)
}

func openingRecords() []traffic.Record {
	return []traffic.Record{
		in(`{"jsonrpc":"2.0","id":"initialize-0","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`),
		out(`{"jsonrpc":"2.0","id":"initialize-0","result":{"protocolVersion":1}}`),
		in(`{"jsonrpc":"2.0","id":"initialize-0/session","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`),
		out(`{"jsonrpc":"2.0","id":"initialize-0/session","result":{"sessionId":%q,"models":{"currentModelId":"m"}}}`, session),
	}
}

// turnRecords returns one turn with a tool call and that many deltas.
func turnRecords(n, deltas int) []traffic.Record {
	records := []traffic.Record{
		in(`{"jsonrpc":"2.0","id":"prompt-%d","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, n, session),
		updated(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"**Considering**\nwhat to do"}}`),
	}
	for range deltas {
		records = append(records, updated(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"word "}}`))
	}
	id := fmt.Sprintf("run_shell_command__run_shell_command_179522126394%d_0", n)
	return append(records,
		updated(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":%q,"status":"in_progress","title":"ls","content":[{"type":"content","content":{"type":"text","text":"(list)"}}],"locations":[],"kind":"execute"}`, id)),
		updated(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":%q,"status":"completed","title":"ls","content":[{"type":"content","content":{"type":"text","text":"a.txt"}}],"locations":[],"kind":"execute"}`, id)),
		out(`{"jsonrpc":"2.0","id":"prompt-%d","result":{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":1,"output_tokens":2}}}}}`, n),
	)
}

// The earlier turns have other ids than the measured ones.
func BenchmarkTranslate(b *testing.B) {
	recorded.BenchmarkTranslate(b, func(turns int) iter.Seq[traffic.Record] {
		records := openingRecords()
		for n := range turns {
			records = append(records, turnRecords(n, 1)...)
		}
		return slices.Values(records)
	}, func(after int) []traffic.Record { return turnRecords(after, 200) })
}

func BenchmarkParse(b *testing.B) {
	recorded.BenchmarkParse(b, []int{1, 8, 64}, func(size int) (adapters.Source, int) {
		var text strings.Builder
		text.WriteString(header + "\n" + header + "\n")
		for n := 0; text.Len() < size; n++ {
			fmt.Fprintf(&text, `{"id":"u%d","timestamp":"2026-01-02T03:04:05.678Z","type":"user","content":[{"text":"go on"}]}`+"\n", n)
			fmt.Fprintf(&text, `{"$set":{"lastUpdated":"2026-01-02T03:04:05.678Z"}}`+"\n")
			fmt.Fprintf(&text, `{"id":"g%d","timestamp":"2026-01-02T03:04:05.678Z","type":"gemini","content":%q,"thoughts":[],"tokens":{"input":100},"model":"m"}`+"\n", n, strings.Repeat("word ", 80))
			fmt.Fprintf(&text, `{"id":"t%d","timestamp":"2026-01-02T03:04:05.678Z","type":"gemini","content":"","toolCalls":[{"id":"run_shell_command__%d","name":"run_shell_command","args":{"command":"ls"},"result":[],"status":"success","timestamp":"2026-01-02T03:04:05.678Z","resultDisplay":%q,"description":"ls"}],"thoughts":[],"model":"m"}`+"\n", n, n, strings.Repeat("line\n", 80))
		}
		return memory(event.Main, text.String()), text.Len()
	})
}
