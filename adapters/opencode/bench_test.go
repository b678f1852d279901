package opencode

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/reducer"
)

// BenchmarkTranslate gives lines per second; it is the same after ten turns
// and after ten thousand.
func BenchmarkTranslate(b *testing.B) {
	records := conversationOf(20)
	for _, before := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("after=%d_turns", before), func(b *testing.B) {
			tr, err := newTranslator(adapters.Launch{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			for range before / 20 {
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

// BenchmarkParse gives bytes per second of exports of 1 to 16 MB, with the fold
// to a state behind it.
func BenchmarkParse(b *testing.B) {
	for _, mb := range []int{1, 4, 16} {
		sources := []adapters.Source{memory("x", exportOf(mb<<20))}
		b.Run(fmt.Sprintf("size=%dMB", mb), func(b *testing.B) {
			b.SetBytes(int64(mb) << 20)
			b.ReportAllocs()
			for range b.N {
				s, err := reducer.Fold(New().Parse(sources))
				if err != nil || len(s.Blocks) == 0 {
					b.Fatal(err, len(s.Blocks))
				}
			}
		})
	}
}

// exportOf is an export of about that many bytes: prompts, each with an answer.
func exportOf(size int) string {
	var out strings.Builder
	row := func(table string, n int, columns string) {
		fmt.Fprintf(&out, `{"table":"%s","rowid":%d,"row":{%s}}`+"\n", table, n, columns)
	}
	row("session", 1, `"id":"s","parent_id":null`)
	text := strconv.Quote(`{"type":"text","text":"` + strings.Repeat("some words of it ", 60) + `","time":{"start":1,"end":2}}`)
	for n := 1; out.Len() < size; n += 2 {
		for i, role := range []string{"user", "assistant"} {
			row("message", n+i, fmt.Sprintf(`"id":"m%d","session_id":"s","data":"{\"role\":\"%s\"}"`, n+i, role))
			row("part", n+i, fmt.Sprintf(`"id":"p%d","message_id":"m%d","session_id":"s","time_created":1,"data":%s`, n+i, n+i, text))
			row("event", n+i, fmt.Sprintf(`"aggregate_id":"s","type":"message.part.updated.1","data":"{\"part\":{\"id\":\"p%d\"}}"`, n+i))
		}
	}
	return out.String()
}
