package replay

import (
	"fmt"
	"iter"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
)

// BenchmarkTranslate measures lines per second after ten turns and after ten thousand,
// which must be about the same. before returns the records of that many turns, and
// measured the records that are measured after them.
func (a Agent) BenchmarkTranslate(b *testing.B, before func(turns int) iter.Seq[traffic.Record], measured func(after int) []traffic.Record) {
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

// Again returns the records, repeated that many times.
func Again(records []traffic.Record, times int) iter.Seq[traffic.Record] {
	return func(yield func(traffic.Record) bool) {
		for range times {
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// BenchmarkParse measures bytes per second for transcripts of so many megabytes, with
// and without the fold to a state. write creates a transcript of about size bytes, and
// returns its exact size.
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
