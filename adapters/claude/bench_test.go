package claude

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// turnRecords is one streamed turn with a tool call and that many deltas.
func turnRecords(n, deltas int) []event.Record {
	out := func(format string, args ...any) event.Record {
		return event.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)}
	}
	msg := fmt.Sprintf("msg_%d", n)
	records := []event.Record{
		{Dir: event.DirIn, Line: fmt.Sprintf(`{"type":"user","uuid":"u%d","message":{"role":"user","content":[{"type":"text","text":"go"}]}}`, n)},
		out(`{"type":"system","subtype":"init","model":"m"}`),
		out(`{"type":"system","subtype":"status","status":"requesting"}`),
		out(`{"type":"stream_event","event":{"type":"message_start","message":{"id":%q,"model":"m"}}}`, msg),
		out(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`),
	}
	for range deltas {
		records = append(records, out(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}},"session_id":"s","parent_tool_use_id":null,"uuid":"5b5baefc-d518-4740-ba81-ca50b135e737"}`))
	}
	return append(records,
		out(`{"type":"assistant","uuid":"a%d","message":{"id":%q,"model":"m","content":[{"type":"text","text":%q}]}}`, n, msg, strings.Repeat("word ", deltas)),
		out(`{"type":"stream_event","event":{"type":"content_block_stop","index":0}}`),
		out(`{"type":"assistant","uuid":"b%d","message":{"id":%q,"model":"m","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"ls"}}]}}`, n, msg, n),
		out(`{"type":"user","uuid":"c%d","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":"ok"}]}}`, n, n),
		out(`{"type":"result","subtype":"success","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`),
	)
}

// BenchmarkTranslate gives lines per second; it is the same after ten turns
// and after ten thousand.
func BenchmarkTranslate(b *testing.B) {
	for _, before := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("after=%d_turns", before), func(b *testing.B) {
			tr, err := newTranslator(adapters.Launch{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			for n := range before {
				for _, r := range turnRecords(n, 1) {
					tr.Step(r)
				}
			}
			records := turnRecords(before, 200)
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

// BenchmarkParse gives bytes per second for transcripts of 1 to 64 MB.
func BenchmarkParse(b *testing.B) {
	for _, mb := range []int{1, 8, 64} {
		var text strings.Builder
		for n := 0; text.Len() < mb<<20; n++ {
			fmt.Fprintf(&text, `{"type":"user","uuid":"u%d","timestamp":"2026-11-21T00:03:30.687Z","message":{"role":"user","content":"go on"}}`+"\n", n)
			fmt.Fprintf(&text, `{"type":"assistant","uuid":"a%d","timestamp":"2026-11-21T00:03:30.687Z","message":{"id":"m%d","model":"m","content":[{"type":"text","text":%q}]}}`+"\n", n, n, strings.Repeat("word ", 80))
			fmt.Fprintf(&text, `{"type":"assistant","uuid":"b%d","message":{"id":"m%d","model":"m","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"ls"}}]}}`+"\n", n, n, n)
			fmt.Fprintf(&text, `{"type":"user","uuid":"c%d","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}}`+"\n", n, n, strings.Repeat("line\n", 80))
		}
		sources := []adapters.Source{memory(event.Main, text.String())}
		b.Run(fmt.Sprintf("size=%dMB", mb), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for range b.N {
				for _, err := range New().Parse(sources) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
