package stream

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestEmitBesideAWriter(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 2, 5)
	_, err := w.Append(t.Context(), say("a"), Position{2, 10, 0})
	require.NoError(t, err)
	last, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 2}, Key: "k", Events: say("own")})
	require.NoError(t, err)
	require.Equal(t, uint64(3), last)
	tail, err := b.Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Tail{3, Fence{2, 5}, Position{2, 10, 0}}, tail, "an emission keeps the attempt and the position")
	last, err = w.Append(t.Context(), say("b"), Position{2, 20, 0})
	require.NoError(t, err)
	require.Equal(t, uint64(4), last, "the writer goes on behind it")
	require.Equal(t, []string{"status", "a", "own", "b"}, read(t, b.Log, "s1", 0))
}

func TestEmitObeysFences(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 2, 5)
	for _, f := range []Fence{{}, {Epoch: 1}, {1, 9}, {2, 4}} {
		_, err := b.Emit(t.Context(), "s1", Emission{Fence: f, Key: f.String(), Events: say("late")})
		require.ErrorIs(t, err, ErrFenced, f)
	}
	_, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 3}, Key: "next", Events: say("next epoch")})
	require.NoError(t, err)
	_, err = w.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced, "a higher epoch's emission fences off as well")
}

func TestEmitOncePerKey(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	emit := func(key string) uint64 {
		last, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: key, Events: say(key)})
		require.NoError(t, err)
		return last
	}
	require.Equal(t, uint64(1), emit("k1"))
	require.Equal(t, uint64(1), emit("k1"), "right after")
	w := b.writer(t, "s1", 1, 1)
	for i := range 300 {
		_, err := w.Append(t.Context(), say(fmt.Sprint(i)), Position{})
		require.NoError(t, err)
	}
	require.Equal(t, uint64(302), emit("k1"), "behind any number of other events")
	for i := range keysKept - 1 {
		emit(fmt.Sprintf("other, with a comma %d\n", i))
	}
	require.Equal(t, emit("other, with a comma 0\n"), emit("k1"), "among the last 64 keys")
	b.writer(t, "s1", 2, 1)
	last, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k1", Events: say("k1")})
	require.NoError(t, err, "what was done before the fence stays done")
	require.Equal(t, uint64(302+keysKept-1+1), last)
}

func TestEmitOnceAmongConcurrentTries(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const tries = 8
	errs := make(chan error, tries)
	for range tries {
		go func() {
			_, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k", Events: say("x", "y")})
			errs <- err
		}()
	}
	for range tries {
		require.NoError(t, <-errs)
	}
	require.Equal(t, []string{"x", "y"}, read(t, b.Log, "s1", 0))
}

func TestEmitOfManyPartsIsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 300 })
	events := say("one", "two", "three", "four", "five", "six", "seven")
	for range 2 {
		last, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k", Events: events})
		require.NoError(t, err)
		require.Equal(t, uint64(7), last)
	}
	require.Len(t, read(t, b.Log, "s1", 0), 7)
}

func TestEmitWantsKeyAndEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, e := range []Emission{{Key: "k"}, {Events: say("x")}} {
		_, err := b.Emit(t.Context(), "s1", e)
		require.ErrorContains(t, err, "required")
	}
}

// Whoever emits is given what the server has stored, with its numbers, and nothing for a known
// key: that may have been stored under others.
func TestEmitGivesWhatIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var stored [][2]any
	emit := func(key string, texts ...string) {
		_, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: key, Events: say(texts...), Stored: func(events []event.Event) {
			for _, ev := range events {
				stored = append(stored, [2]any{ev.Context.Seq, ev.Payload.(event.BlockDelta).Delta})
			}
		}})
		require.NoError(t, err)
	}
	emit("one", "a", "b")
	emit("two", "c")
	emit("one", "a", "b")
	require.Equal(t, [][2]any{{uint64(1), "a"}, {uint64(2), "b"}, {uint64(3), "c"}}, stored)
}
