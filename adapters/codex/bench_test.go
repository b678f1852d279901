package codex

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// syntheticTurn returns the records of a turn with a thought, a command and a
// long answer, and the lines that a rollout keeps of it.
func syntheticTurn(n, deltas int) (records []traffic.Record, rollout string) {
	say := func(format string, args ...any) {
		records = append(records, traffic.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
	}
	turn := fmt.Sprintf("turn-%d", n)
	at := fmt.Sprintf(`"threadId":"main","turnId":%q`, turn)
	say(`{"method":"turn/started","params":{"threadId":"main","turn":{"id":%q}}}`, turn)
	user := fmt.Sprintf(`"id":"user-%d","content":[{"type":"text","text":"what is there?","text_elements":[]}]`, n)
	say(`{"method":"item/started","params":{"item":{"type":"userMessage",%s},%s}}`, user, at)
	say(`{"method":"item/completed","params":{"item":{"type":"userMessage",%s},%s}}`, user, at)
	call := fmt.Sprintf(`"id":"call-%d","processId":"7","aggregatedOutput":"a\nb\n","exitCode":0,"durationMs":3,"command":"/bin/bash -lc 'ls -la'"`, n)
	say(`{"method":"item/started","params":{"item":{"type":"commandExecution","status":"inProgress",%s},%s}}`, call, at)
	say(`{"method":"item/completed","params":{"item":{"type":"commandExecution","status":"completed",%s},%s}}`, call, at)
	say(`{"method":"item/started","params":{"item":{"type":"agentMessage","id":"msg-%d","text":""},%s}}`, n, at)
	piece := "a piece of text of some length, "
	for range deltas {
		say(`{"method":"item/agentMessage/delta","params":{%s,"itemId":"msg-%d","delta":%q},"emittedAtMs":1795221562028}`, at, n, piece)
	}
	text := strings.Repeat(piece, deltas)
	say(`{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"msg-%d","text":%q},%s}}`, n, text, at)
	say(`{"method":"thread/tokenUsage/updated","params":{%s,"tokenUsage":{"total":{"totalTokens":%d},"last":{"inputTokens":100,"outputTokens":20}}}}`, at, n+1)
	say(`{"method":"turn/completed","params":{"threadId":"main","turn":{"id":%q,"status":"completed","durationMs":5}}}`, turn)
	return records, syntheticLines(n, turn, text)
}

func syntheticLines(n int, turn, text string) string {
	var b strings.Builder
	line := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, `{"timestamp":"2026-01-02T03:04:05.678Z","ordinal":%d,"type":%q,"payload":{`+format+"}}\n", append([]any{n, kind}, args...)...)
	}
	line(lineEvent, `"type":"task_started","turn_id":%q`, turn)
	line("turn_context", `"turn_id":%q,"cwd":"/srv/project","approval_policy":"never","model":"m","summary":"none"`, turn)
	line(lineItem, `"type":"message","role":"user","id":"m-%d","content":[{"type":"input_text","text":"what is there?"}]`, n)
	line(lineEvent, `"type":"item_completed","turn_id":%q,"item":{"type":"UserMessage","id":"user-%d","content":[{"type":"text","text":"what is there?"}]},"started_at_ms":%d,"completed_at_ms":%d`, turn, n, n*10, n*10)
	line(lineItem, `"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"ls -la\"}","call_id":"call-%d"`, n)
	line(lineEvent, `"type":"item_completed","turn_id":%q,"item":{"type":"CommandExecution","id":"call-%d","process_id":"7","command":["/bin/bash","-lc","ls -la"],"status":"completed","aggregated_output":"a\nb\n","exit_code":0},"started_at_ms":%d,"completed_at_ms":%d`, turn, n, n*10+1, n*10+2)
	line(lineItem, `"type":"function_call_output","call_id":"call-%d","output":"Chunk ID: 1\nOutput:\na\nb\n"`, n)
	line(lineEvent, `"type":"item_completed","turn_id":%q,"item":{"type":"AgentMessage","id":"msg-%d","content":[{"type":"Text","text":%q}]},"started_at_ms":%d,"completed_at_ms":%d`, turn, n, text, n*10+3, n*10+4)
	line(lineItem, `"type":"message","role":"assistant","id":"msg-%d","content":[{"type":"output_text","text":%q}]`, n, text)
	line(lineTokens, `"turn_id":%q,"usage":{"input_tokens":100,"output_tokens":20}`, turn)
	line(lineEvent, `"type":"task_complete","turn_id":%q,"duration_ms":5`, turn)
	return b.String()
}

func BenchmarkTranslate(b *testing.B) {
	records, _ := syntheticTurn(1, 40)
	recorded.BenchmarkTranslate(b,
		func(turns int) iter.Seq[traffic.Record] { return replay.Again(records, turns) },
		func(int) []traffic.Record { return records })
}

func BenchmarkParse(b *testing.B) {
	recorded.BenchmarkParse(b, []int{1, 8, 64}, func(size int) (adapters.Source, int) {
		var text strings.Builder
		for n := 0; text.Len() < size; n++ {
			_, lines := syntheticTurn(n, 40)
			text.WriteString(lines)
		}
		return memory(event.Main, text.String()), text.Len()
	})
}

// The synthetic turn is consistent: both sides of it are the same conversation.
func TestSyntheticTurn(t *testing.T) {
	t.Parallel()
	records, lines := syntheticTurn(1, 3)
	live := recorded.Live(t, replay.Run{Records: records}.Spool())
	replay.Same(t, live, recorded.Parsed(t, memory(event.Main, lines)), parity.Rules{})
	require.NotZero(t, replay.CountBlocks(live))
}
