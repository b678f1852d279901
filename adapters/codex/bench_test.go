package codex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// syntheticTurn is the records of a turn with a thought, a command and a long
// answer, and the lines that a rollout keeps of it.
func syntheticTurn(n, deltas int) (records []event.Record, rollout string) {
	say := func(format string, args ...any) {
		records = append(records, event.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
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

// BenchmarkTranslate gives lines per second; it is the same after ten turns
// and after ten thousand.
func BenchmarkTranslate(b *testing.B) {
	records, _ := syntheticTurn(1, 40)
	for _, before := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("after=%d_turns", before), func(b *testing.B) {
			tr, err := newTranslator(adapters.Launch{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			for range before {
				for _, r := range records {
					tr.Step(r)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for _, r := range records {
					tr.Step(r)
				}
			}
			b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// BenchmarkParse gives bytes per second for rollouts of 1 to 64 MB, alone and
// with the fold to a state behind it.
func BenchmarkParse(b *testing.B) {
	for _, mb := range []int{1, 8, 64} {
		var text strings.Builder
		for n := 0; text.Len() < mb<<20; n++ {
			_, lines := syntheticTurn(n, 40)
			text.WriteString(lines)
		}
		sources := []adapters.Source{memory(event.Main, text.String())}
		for name, do := range map[string]func(event.Event){"events": func(event.Event) {}, "state": nil} {
			b.Run(fmt.Sprintf("size=%dMB/%s", mb, name), func(b *testing.B) {
				b.SetBytes(int64(text.Len()))
				b.ReportAllocs()
				for range b.N {
					take := do
					if fold := new(reducer.Builder); take == nil {
						take = fold.Add
					}
					for e, err := range New().Parse(sources) {
						if err != nil {
							b.Fatal(err)
						}
						take(e)
					}
				}
			})
		}
	}
}

// The synthetic turn is one: both sides of it are the same conversation.
func TestSyntheticTurn(t *testing.T) {
	t.Parallel()
	records, lines := syntheticTurn(1, 3)
	live := foldLive(t, []process{{records: records}}, nil)
	restored := foldParsed(t, []adapters.Source{memory(event.Main, lines)})
	compareStates(t, live, restored)
}
