package stream

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// From the call of Append until a follower on another connection has the event;
// ack-ns is the part until Append returns.
func BenchmarkAppendToReader(b *testing.B) {
	s := setup(b, nil)
	events := follower(b, s.again(b), "s1", 0)
	w := s.writer(b, "s1", 1, 1)
	<-events
	batch := say("a delta of some forty characters or so")
	var took []time.Duration
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := w.Append(b.Context(), batch, Position{1, int64(i), 0})
			done <- err
		}()
		<-events
		took = append(took, time.Since(start))
		require.NoError(b, <-done)
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// One append after the other, each waiting for its answer.
func BenchmarkAppend(b *testing.B) {
	s := setup(b, nil)
	w := s.writer(b, "s1", 1, 1)
	batch := say("a delta of some forty characters or so")
	for b.Loop() {
		_, err := w.Append(b.Context(), batch, Position{})
		require.NoError(b, err)
	}
}

func BenchmarkBatcher(b *testing.B) {
	s := setup(b, nil)
	batcher := s.writer(b, "s1", 1, 1).Batcher(b.Context(), BatcherOptions{})
	batch := say("a delta of some forty characters or so")
	for b.Loop() {
		require.NoError(b, batcher.Add(b.Context(), batch, Position{}))
	}
	require.NoError(b, batcher.Flush(b.Context()))
	require.NoError(b, batcher.Close())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// The first event behind a position in a session of 100 000 messages, and all of
// a session of 100 000 events.
func BenchmarkReadAfter(b *testing.B) {
	const messages = 100_000
	s := setup(b, nil)
	w := s.writer(b, "s1", 1, 1)
	fill(b, s, w, messages)
	for _, after := range []uint64{0, messages / 3, messages - 10, messages + 1} {
		b.Run(fmt.Sprint(after), func(b *testing.B) {
			for b.Loop() {
				for _, err := range s.Read(b.Context(), "s1", after, ReadOptions{}) {
					require.NoError(b, err)
					break
				}
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for _, err := range s.Read(b.Context(), "s1", 0, ReadOptions{}) {
				require.NoError(b, err)
				n++
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	})
}

// fill appends one event per message, without waiting for each.
func fill(b *testing.B, s *bundle, w *Writer, messages int) {
	b.Helper()
	subject, like := s.subject("s1"), message{fence: w.fence, part: 1, parts: 1}
	for i := range messages {
		data, err := encodeBatch("s1", uint64(i+2), []item{{events: say("delta")}}, 1<<20)
		require.NoError(b, err)
		like.first, like.last, like.batch, like.data = data.first, data.last, s.batchID(), data.data
		_, err = s.js.PublishMsgAsync(natsMsg(subject, like), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-s.js.PublishAsyncComplete()
}

func natsMsg(subject string, m message) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: m.header(), Data: m.data}
}
