package reducer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sojourn-run/sojourn/event"
)

var sizes = []int{10, 1_000, 20_000}

// conversationOf returns n blocks with some text each.
func conversationOf(n int) State {
	var b Builder
	for i := range n {
		b.Add(in("main", textBlock(blockName(i))))
		b.Add(in("main", event.BlockDelta{BlockID: blockName(i), Delta: "some text to begin with"}))
	}
	return b.State()
}

func blockName(i int) string { return fmt.Sprintf("msg_%08d:0", i) }

func deltaTo(i int) event.Event {
	return event.Event{
		Payload: event.BlockDelta{BlockID: blockName(i), Delta: "five words of it, "},
		Context: event.Context{SessionID: "s", ConversationID: "main", Source: event.SourceRunner},
	}
}

func reportRate(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deltas/s")
}

// blockLength is after how many deltas a block is finished, as every agent does: a text
// that grows forever would measure the machine's memory.
const blockLength = 4096

func finish(i int) event.Event {
	return in("main", upsertOf(event.Block{ID: blockName(i), Type: event.BlockAssistantText, Content: new("whole")}))
}

func BenchmarkBuilderDeltaLastBlock(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			builder, e, done := NewBuilder(conversationOf(n)), deltaTo(n-1), finish(n-1)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%blockLength == 0 {
					builder.Add(done)
				}
				builder.Add(e)
			}
			reportRate(b)
		})
	}
}

// The worst case for memory, which no agent produces: every delta is for another block.
func BenchmarkBuilderDeltaRandomBlock(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			builder := NewBuilder(conversationOf(n))
			rng := rand.New(rand.NewPCG(1, 2))
			events := make([]event.Event, 1<<14)
			for i := range events {
				events[i] = deltaTo(rng.IntN(n))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				builder.Add(events[i%len(events)])
			}
			reportRate(b)
		})
	}
}

// Subagents that run concurrently: each delta is for another conversation.
func BenchmarkBuilderDeltaParallelSubagents(b *testing.B) {
	for _, n := range []int{2, 16} {
		b.Run(fmt.Sprintf("subagents=%d", n), func(b *testing.B) {
			var builder Builder
			events := make([]event.Event, n)
			for i := range events {
				conv := fmt.Sprintf("toolu_%08d", i)
				builder.Add(in(conv, textBlock(blockName(i))))
				events[i] = deltaTo(i)
				events[i].Context.ConversationID = conv
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				builder.Add(events[i%n])
			}
			reportRate(b)
		})
	}
}

// A long text must cost its length: the rate here is that of a short one.
func BenchmarkBuilderLongText(b *testing.B) {
	for _, deltas := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("deltas=%d", deltas), func(b *testing.B) {
			e := deltaTo(0)
			b.ReportAllocs()
			for b.Loop() {
				builder := NewBuilder(conversationOf(1))
				for range deltas {
					builder.Add(e)
				}
				builder.State()
			}
			b.ReportMetric(float64(b.N)*float64(deltas)/b.Elapsed().Seconds(), "deltas/s")
		})
	}
}

func BenchmarkReduceDeltaLastBlock(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			start, e := conversationOf(n), deltaTo(n-1)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				Reduce(start, e)
			}
			reportRate(b)
		})
	}
}

// A turn ends when the agent is idle: its cost must not grow with earlier turns.
func BenchmarkBuilderTurn(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			start := conversationOf(n)
			builder := NewBuilder(start)
			builder.Add(in("main", event.SessionIdle{}))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				id := blockName(n + i)
				builder.Add(in("main", textBlock(id)))
				builder.Add(in("main", event.BlockDelta{BlockID: id, Delta: "answer"}))
				builder.Add(in("main", event.SessionIdle{}))
			}
		})
	}
}
