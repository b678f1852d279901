package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// litter puts messages that this package never writes into a session's subject.
func litter(t *testing.T, b *bundle, id string) {
	t.Helper()
	for _, m := range []*nats.Msg{
		{Data: []byte("garbage")},
		{Header: nats.Header{headerFirst: {"one"}, headerLast: {"2"}}, Data: []byte("{}")},
		{},
	} {
		m.Subject = b.subject(id)
		_, err := b.js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
}

// Foreign messages on a session's subject, at its beginning, in the middle and at
// the end, hide no event and block no writer.
func TestDamageForeignMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	litter(t, b, "s1")
	var want []string
	first := b.writer(t, "s1", 1, 1)
	followed := make(chan []string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		var heard []string
		for ev, err := range b.Read(ctx, "s1", 0, ReadOptions{Follow: true}) {
			if err != nil {
				break
			}
			if heard = append(heard, text(ev)); len(heard) == 11 {
				break
			}
		}
		followed <- heard
	}()
	for n := range 4 {
		for range 3 {
			litter(t, b, "other") // so that numbers are far apart
		}
		_, err := first.Append(t.Context(), say(fmt.Sprint("a", n)), Position{Epoch: 1, Offset: int64(n + 1)})
		require.NoError(t, err)
		litter(t, b, "s1")
	}
	tail, err := b.again(t).Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Tail{LastSeq: 5, Fence: Fence{1, 1}, Position: Position{Epoch: 1, Offset: 4}}, tail)

	second := b.writer(t, "s1", 1, 2)
	require.Equal(t, int64(4), second.Tail().Position.Offset, "the resume point is behind the litter")
	for n := range 5 {
		_, err := second.Append(t.Context(), say(fmt.Sprint("b", n)), Position{})
		require.NoError(t, err)
	}
	_, err = first.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced)
	litter(t, b, "s1")
	all := read(t, b.Log, "s1", 0)
	want = slices.Clone(all)
	require.Len(t, want, 11)
	for after := range uint64(12) {
		require.Equal(t, want[after:], append([]string{}, read(t, b.again(t), "s1", after)...), "after %d", after)
	}
	require.Equal(t, want, <-followed)
	require.Error(t, gapAfter(t, b.Log, "s1", 13))
}

// A subject with only foreign messages is that of a new session.
func TestDamageNothingButForeignMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	litter(t, b, "s1")
	require.Empty(t, read(t, b.Log, "s1", 0))
	w := b.writer(t, "s1", 1, 1)
	_, err := w.Append(t.Context(), say("first"), Position{})
	require.NoError(t, err)
	require.Len(t, read(t, b.Log, "s1", 0), 2)
}

// Two writers that find a deleted stream at the same time both choose the number
// at which events continue. The second one uses the first one's.
func TestDeletedStreamIsContinuedByTwo(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	first := b.writer(t, "s1", 1, 1)
	last, err := first.Append(t.Context(), say("a"), Position{})
	require.NoError(t, err)
	require.NoError(t, b.Purge(t.Context(), "s1"))

	late, err := b.lastFrom(t.Context(), "s1", cursor{known: last})
	require.NoError(t, err)
	require.Greater(t, late.last, last+1)
	_, err = first.Append(t.Context(), say("b"), Position{})
	require.NoError(t, err)
	before := first.Tail().LastSeq
	// The second choice is later than the first.
	late.last = max(late.last, before) + 1000

	var taken int
	second := &Writer{log: b.Log, session: "s1", fence: Fence{1, 2}}
	c, err := b.commit(t.Context(), late, second.draft([]item{{events: say("c")}}, b.limit, &taken))
	require.NoError(t, err)
	require.Equal(t, before+1, c.last)
}

// The first events of a session may have been appended by a try whose outcome is
// unknown, to a stream that was deleted then: a later try does not give their numbers again.
// Readers of the new stream are told once. If the stream is older than the first try nothing was deleted.
func TestFirstNumbersAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	began := time.Now()
	emission := Emission{Fence: Fence{Epoch: 1}, Key: "begin", Events: say("a")}
	_, err := b.Emit(t.Context(), "old", emission)
	require.NoError(t, err)
	require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))

	emission.Since = began
	last, err := b.Emit(t.Context(), "old", emission)
	require.NoError(t, err)
	require.Greater(t, last, uint64(began.UnixMicro()))
	emission.Since = time.Now()
	last, err = b.Emit(t.Context(), "new", emission)
	require.NoError(t, err)
	require.Equal(t, uint64(1), last)
}
