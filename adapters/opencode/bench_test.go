package opencode

import (
	"fmt"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
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
