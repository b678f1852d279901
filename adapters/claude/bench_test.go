package claude

import (
	"bytes"
	"iter"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/synth"
)

func BenchmarkTranslate(b *testing.B) {
	recorded.BenchmarkTranslate(b,
		func(turns int) iter.Seq[traffic.Record] { return replay.Again(synth.Records(10), turns/10) },
		func(int) []traffic.Record { return synth.Records(20) })
}

// make bench continues to 256 MB.
func BenchmarkParse(b *testing.B) {
	recorded.BenchmarkParse(b, []int{1, 8, 64}, func(size int) (adapters.Source, int) {
		var text bytes.Buffer
		if _, err := synth.Write(&text, int64(size)); err != nil {
			b.Fatal(err)
		}
		return memory(event.Main, text.String()), text.Len()
	})
}
