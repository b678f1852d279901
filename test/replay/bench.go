package replay

import (
	"fmt"
	"iter"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// BenchmarkTranslate gives lines per second; it is the same after ten turns and
// after ten thousand. before are the records of that many turns, and measured
// those whose translation is measured behind them.
func (a Agent) BenchmarkTranslate(b *testing.B, before func(turns int) iter.Seq[event.Record], measured func(after int) []event.Record) {
	for _, turns := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("after=%d_turns", turns), func(b *testing.B) {
			tr := a.Translator(b, nil)
			for r := range before(turns) {
				tr.Step(r)
			}
			records := measured(turns)
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

// Again gives records that many times.
func Again(records []event.Record, times int) iter.Seq[event.Record] {
	return func(yield func(event.Record) bool) {
		for range times {
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// BenchmarkParse gives bytes per second for transcripts of so many megabytes,
// alone and with the fold to a state behind it. write makes a transcript of
// about that many bytes, and says how many they are.
func (a Agent) BenchmarkParse(b *testing.B, megabytes []int, write func(size int) (adapters.Source, int)) {
	for _, mb := range megabytes {
		source, size := write(mb << 20)
		for _, fold := range []bool{false, true} {
			name := map[bool]string{false: "events", true: "state"}[fold]
			b.Run(fmt.Sprintf("size=%dMB/%s", mb, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for range b.N {
					a.parse(b, source, fold)
				}
			})
		}
	}
}

func (a Agent) parse(b *testing.B, source adapters.Source, fold bool) {
	state := reducer.NewBuilder(reducer.State{})
	for e, err := range a.Adapter.Parse([]adapters.Source{source}) {
		if err != nil {
			b.Fatal(err)
		}
		if fold {
			state.Add(e)
		}
	}
	if fold && len(state.State().Blocks) == 0 {
		b.Fatal("nothing was parsed")
	}
}
