package stream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestBatcherKeepsOrderAndGathers(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	batcher := w.Batcher(t.Context(), BatcherOptions{})
	want := []string{"status"}
	for i := range 2000 {
		require.NoError(t, batcher.Add(t.Context(), say(fmt.Sprint(i)), Position{1, int64(i + 1), 0}))
		want = append(want, fmt.Sprint(i))
	}
	require.NoError(t, batcher.Flush(t.Context()))
	require.Equal(t, Tail{2001, Fence{1, 1}, Position{1, 2000, 0}}, w.Tail())
	require.NoError(t, batcher.Close())
	require.NoError(t, batcher.Close())
	require.ErrorIs(t, batcher.Add(t.Context(), say("x"), Position{}), ErrClosed)
	require.Equal(t, want, read(t, b.Log, "s1", 0))
	s, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	require.Less(t, s.CachedInfo().State.Msgs, uint64(1000), "what is added while an append runs goes out as one")
}

// Every message's position is that of its own last event, so the death of a
// writer between two messages of a flood loses and repeats nothing.
func TestEveryBatchHasItsOwnPosition(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 700 })
	batcher := b.writer(t, "s1", 1, 1).Batcher(t.Context(), BatcherOptions{})
	for i := range 200 {
		require.NoError(t, batcher.Add(t.Context(), say(fmt.Sprint(i), "+"), Position{1, int64(i + 1), 1}))
	}
	require.NoError(t, batcher.Flush(t.Context()))
	require.NoError(t, batcher.Close())
	for at := uint64(1); ; {
		m, err := b.getNext(t.Context(), b.subject("s1"), at)
		if err != nil {
			require.ErrorIs(t, err, ErrNotFound)
			return
		}
		require.LessOrEqual(t, len(m.data), 700)
		require.Equal(t, int64(m.last-1)/2, m.pos.Offset)
		at = m.at + 1
	}
}

func TestBatcherBoundsItsQueue(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	w.turn <- struct{}{} // appends wait
	batcher := w.Batcher(t.Context(), BatcherOptions{MaxBytes: 1000})
	require.NoError(t, batcher.Add(t.Context(), say(strings.Repeat("x", 5000)), Position{}), "an empty queue takes any item")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, batcher.Add(ctx, say("y"), Position{}), context.Canceled, "a full one makes Add wait")
	require.ErrorIs(t, batcher.Flush(ctx), context.Canceled)
	<-w.turn
	require.NoError(t, batcher.Flush(t.Context()))
	require.NoError(t, batcher.Add(ctx, say("y"), Position{}))
	require.NoError(t, batcher.Flush(t.Context()))
	require.NoError(t, batcher.Close())
	require.Len(t, read(t, b.Log, "s1", 0), 3)
}

func TestBatcherStopsWhenFenced(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	batcher := b.writer(t, "s1", 1, 1).Batcher(t.Context(), BatcherOptions{})
	b.writer(t, "s1", 1, 2)
	require.NoError(t, batcher.Add(t.Context(), say("late"), Position{}))
	require.ErrorIs(t, batcher.Flush(t.Context()), ErrFenced)
	require.ErrorIs(t, batcher.Add(t.Context(), say("late"), Position{}), ErrFenced)
	require.ErrorIs(t, batcher.Close(), ErrFenced)
	require.Equal(t, []string{"status", "status"}, read(t, b.Log, "s1", 0))
}

func TestBatcherAppendsWhatIsGoodBeforeABadEvent(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	w.turn <- struct{}{}
	batcher := w.Batcher(t.Context(), BatcherOptions{})
	require.NoError(t, batcher.Add(t.Context(), say("good"), Position{}))
	require.NoError(t, batcher.Add(t.Context(), []event.Event{{Payload: event.Unknown{Name: "x", Raw: []byte("{")}}}, Position{}))
	<-w.turn
	require.ErrorIs(t, batcher.Flush(t.Context()), ErrEvent)
	require.ErrorIs(t, batcher.Close(), ErrEvent)
	require.ErrorIs(t, batcher.Add(t.Context(), []event.Event{{}}, Position{}), ErrEvent)
	require.Equal(t, []string{"status", "good"}, read(t, b.Log, "s1", 0))
}

func TestBatcherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	batcher := b.writer(t, "s1", 1, 1).Batcher(ctx, BatcherOptions{})
	cancel()
	require.ErrorIs(t, batcher.w.ended(batcher), ErrClosed)
	require.NoError(t, batcher.Close())
}

// ended waits until a batcher accepts nothing any more.
func (w *Writer) ended(b *Batcher) error {
	<-b.done
	return b.Add(context.Background(), say("x"), Position{})
}

// A batcher's owner gets what is stored, numbered as subscribers get it, before Flush returns;
// also across a deletion of the stream.
func TestBatcherGivesWhatIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var mu sync.Mutex
	stored := map[uint64]string{}
	batcher := b.writer(t, "s1", 1, 1).Batcher(t.Context(), BatcherOptions{Stored: func(events []event.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, ev := range events {
			stored[ev.Context.Seq] = ev.Payload.(event.BlockDelta).Delta
		}
	}})
	add := func(texts ...string) {
		require.NoError(t, batcher.Add(t.Context(), say(texts...), Position{}))
		require.NoError(t, batcher.Add(t.Context(), say(texts...), Position{}))
		require.NoError(t, batcher.Flush(t.Context()))
	}
	want := map[uint64]string{}
	has := func(after uint64) {
		t.Helper()
		for ev, err := range b.Read(t.Context(), "s1", after, ReadOptions{}) {
			require.NoError(t, err)
			if p, ok := ev.Payload.(event.BlockDelta); ok {
				want[ev.Context.Seq] = p.Delta
			}
		}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, want, stored)
	}
	add("a", "b", "c")
	has(0)
	require.Len(t, want, 6)
	require.NoError(t, b.Purge(t.Context(), "s1"))
	add("d", "e")
	var gap *GapError
	for _, err := range b.Read(t.Context(), "s1", 7, ReadOptions{}) {
		require.ErrorAs(t, err, &gap)
	}
	has(gap.Have - 1)
	require.Len(t, want, 10)
	require.NoError(t, batcher.Close())
}
