package claude

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude/synth"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// BenchmarkTranslate gives lines per second; it is the same after ten turns
// and after ten thousand.
func BenchmarkTranslate(b *testing.B) {
	records := synth.Records(20)
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

// BenchmarkParse gives bytes per second for transcripts of 1 to 64 MB, alone
// and with the fold to a state behind it; make bench goes on to 256 MB.
func BenchmarkParse(b *testing.B) {
	for _, mb := range []int64{1, 8, 64} {
		var text bytes.Buffer
		if _, err := synth.Write(&text, mb<<20); err != nil {
			b.Fatal(err)
		}
		sources := []adapters.Source{memory(event.Main, text.String())}
		for name, do := range map[string]func(event.Event){"events": func(event.Event) {}, "state": nil} {
			b.Run(fmt.Sprintf("size=%dMB/%s", mb, name), func(b *testing.B) {
				b.SetBytes(int64(text.Len()))
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
