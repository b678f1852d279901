package opencode

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/replay"
)

func BenchmarkTranslate(b *testing.B) {
	recorded.BenchmarkTranslate(b,
		func(turns int) iter.Seq[traffic.Record] { return replay.Again(conversationOf(10), turns/10) },
		func(int) []traffic.Record { return conversationOf(20) })
}

func BenchmarkParse(b *testing.B) {
	recorded.BenchmarkParse(b, []int{1, 4, 16}, func(size int) (adapters.Source, int) {
		text := exportOf(size)
		return memory("x", text), len(text)
	})
}

// exportOf returns an export of about that many bytes: prompts, each with an
// answer.
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
