package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// follower reads in a goroutine that ends with the test.
func follower(t testing.TB, log *Log, id string, after uint64) <-chan event.Event {
	out := make(chan event.Event)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		defer close(out)
		for e, err := range log.Read(ctx, id, after, ReadOptions{Follow: true}) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("follow %s: %v", id, err)
				}
				return
			}
			select {
			case out <- e:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return out
}

func TestFollowBeginsBeforeTheSession(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	events := follower(t, b.again(t), "s1", 0)
	w := b.writer(t, "s1", 1, 1)
	require.Equal(t, uint64(1), (<-events).Context.Seq)
	_, err := w.Append(t.Context(), say("a", "b"), Position{})
	require.NoError(t, err)
	require.Equal(t, "a", text(<-events))
	require.Equal(t, "b", text(<-events))
}

func TestFollowManyReadersFromAnywhere(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	batcher := w.Batcher(t.Context(), BatcherOptions{})
	for i := range 500 {
		require.NoError(t, batcher.Add(t.Context(), say(fmt.Sprint(i)), Position{}))
	}
	require.NoError(t, batcher.Flush(t.Context()))
	var readers []<-chan event.Event
	for after := range 5 {
		readers = append(readers, follower(t, b.Log, "s1", uint64(after*60)))
	}
	for i := range 500 {
		require.NoError(t, batcher.Add(t.Context(), say(fmt.Sprint(500+i)), Position{}))
	}
	require.NoError(t, batcher.Flush(t.Context()))
	require.NoError(t, batcher.Close())
	for i, events := range readers {
		for want := uint64(i*60 + 1); want <= 1001; want++ {
			require.Equal(t, want, (<-events).Context.Seq)
		}
	}
	require.Zero(t, consumers(t, b.Log), "readers leave nothing on the server")
}

// A follower that is slower than the writer reads from the stream what it did not
// receive live.
func TestSlowFollowerLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	events := follower(t, b.again(t), "s1", 0)
	require.Equal(t, uint64(1), (<-events).Context.Seq)
	big := strings.Repeat("x", 200<<10)
	for range 60 {
		_, err := w.Append(t.Context(), say(big, "small"), Position{})
		require.NoError(t, err)
	}
	for want := uint64(2); want <= 121; want++ {
		require.Equal(t, want, (<-events).Context.Seq)
	}
}

func TestLiveQueueIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	live, err := b.listen("s1")
	require.NoError(t, err)
	defer live.stop()
	w := b.writer(t, "s1", 1, 1)
	big := strings.Repeat("x", 200<<10)
	for range 30 {
		_, err := w.Append(t.Context(), say(big), Position{})
		require.NoError(t, err)
	}
	require.NoError(t, b.nc.Flush())
	require.Eventually(t, func() bool {
		live.mu.Lock()
		defer live.mu.Unlock()
		return live.lost
	}, 10e9, 1e6, "the subscription's own goroutine gives no sign")
	answers, lost := live.take()
	require.True(t, lost)
	require.Less(t, len(answers), 25)
}

func TestLeavingTheLoopEndsTheReader(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.writer(t, "s1", 1, 1)
	log := b.again(t)
	before := log.nc.NumSubscriptions()
	for range log.Read(t.Context(), "s1", 0, ReadOptions{Follow: true}) {
		break
	}
	require.Equal(t, before, log.nc.NumSubscriptions())
}

func TestFollowEndsWithItsContextAndWithTheConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.writer(t, "s1", 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end error
	for _, err := range b.Read(ctx, "s1", 0, ReadOptions{Follow: true}) {
		cancel()
		end = err
	}
	require.ErrorIs(t, end, context.Canceled)
	log := b.again(t)
	for _, err := range log.Read(t.Context(), "s1", 0, ReadOptions{Follow: true}) {
		log.Close()
		end = err
	}
	require.ErrorContains(t, end, "connection closed")
}

func TestPartsReachFollowersWhole(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 1000 })
	events := follower(t, b.again(t), "s1", 0)
	w := b.writer(t, "s1", 1, 1)
	big := strings.Repeat("0123456789", 1000)
	_, err := w.Append(t.Context(), say("a", big, "b"), Position{})
	require.NoError(t, err)
	require.Equal(t, "status", text(<-events))
	require.Equal(t, "a", text(<-events))
	require.Equal(t, big, text(<-events))
	require.Equal(t, "b", text(<-events))
	for after, want := range [][]string{{"status", "a", big, "b"}, {"a", big, "b"}, {big, "b"}, {"b"}, nil} {
		require.Equal(t, want, read(t, b.Log, "s1", uint64(after)), "after %d", after)
	}
}

// A writer that dies between two parts leaves a torn batch: it does not count,
// and its numbers are used by the next writer.
func TestTornPartsCountForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 1000 })
	w := b.writer(t, "s1", 1, 1)
	_, err := w.Append(t.Context(), say("a"), Position{1, 1, 0})
	require.NoError(t, err)
	torn, err := encodeBatch("s1", 3, []item{{events: say(strings.Repeat("x", 5000)), pos: Position{1, 2, 0}}}, 1000)
	require.NoError(t, err)
	parts := torn.messages(message{fence: w.c.fence, pos: w.c.pos, batch: "torn"}, 1000)
	at := w.c.at
	for _, m := range parts[:3] {
		at, err = b.put(t.Context(), b.subject("s1"), at, m)
		require.NoError(t, err)
	}
	tail, err := b.Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Tail{2, Fence{1, 1}, Position{1, 1, 0}}, tail)
	events := follower(t, b.again(t), "s1", 2)

	last, err := w.Append(t.Context(), say("b"), Position{1, 2, 0})
	require.NoError(t, err)
	require.Equal(t, uint64(3), last)
	require.Equal(t, "b", text(<-events))
	for after, want := range [][]string{{"status", "a", "b"}, {"a", "b"}, {"b"}, nil} {
		require.Equal(t, want, read(t, b.Log, "s1", uint64(after)), "after %d", after)
	}
}

// 64 MB pass through a server with its default max_payload of 1 MiB.
func TestHugeEvent(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	require.LessOrEqual(t, b.nc.MaxPayload(), int64(1<<20))
	w := b.writer(t, "s1", 1, 1)
	huge := strings.Repeat("0123456789abcdef", 4<<20)
	_, err := w.Append(t.Context(), say(huge), Position{1, 9, 0})
	require.NoError(t, err)
	_, err = w.Append(t.Context(), say("small"), Position{})
	require.NoError(t, err)
	got := read(t, b.Log, "s1", 1)
	require.Len(t, got, 2)
	require.True(t, huge == got[0])
	tail, err := b.Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Tail{3, Fence{1, 1}, Position{1, 9, 0}}, tail)
}
