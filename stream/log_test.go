package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	require.Equal(t, Tail{LastSeq: 1, Fence: Fence{1, 1}}, w.Tail())

	last, err := w.Append(t.Context(), say("a", "b"), Position{1, 100, 2})
	require.NoError(t, err)
	require.Equal(t, uint64(3), last)
	last, err = w.Append(t.Context(), say("c"), Position{})
	require.NoError(t, err)
	require.Equal(t, uint64(4), last)

	require.Equal(t, []string{"status", "a", "b", "c"}, read(t, b.Log, "s1", 0))
	require.Equal(t, []string{"b", "c"}, read(t, b.Log, "s1", 2), "from inside a batch")
	require.Empty(t, read(t, b.Log, "s1", 4))
	tail, err := b.Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Tail{4, Fence{1, 1}, Position{1, 100, 2}}, tail, "events from no spool keep the position")
}

func TestFenceEventIsVisible(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.Writer(t.Context(), "s1", Fence{3, 7}, WriterOptions{Message: "resumed"})
	require.NoError(t, err)
	for e, err := range b.Read(t.Context(), "s1", 0, ReadOptions{}) {
		require.NoError(t, err)
		require.Equal(t, event.Status{Epoch: 3, Attempt: 7, Message: "resumed"}, e.Payload)
		require.Equal(t, event.SourceServer, e.Context.Source)
		require.False(t, e.Context.Timestamp.IsZero())
	}
}

func TestLowerFenceIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	old := b.writer(t, "s1", 1, 1)
	newer := b.writer(t, "s1", 1, 2)
	_, err := old.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced)
	_, err = old.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced, "for good")
	_, err = b.Writer(t.Context(), "s1", Fence{1, 1}, WriterOptions{})
	require.ErrorIs(t, err, ErrFenced)
	b.writer(t, "s1", 2, 1)
	_, err = newer.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced)
	require.Equal(t, []string{"status", "status", "status"}, read(t, b.Log, "s1", 0))
}

func TestNewWriterLearnsThePosition(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.writer(t, "s1", 1, 1).Append(t.Context(), say("a"), Position{1, 55, 3})
	require.NoError(t, err)
	require.Equal(t, Tail{3, Fence{1, 2}, Position{1, 55, 3}}, b.writer(t, "s1", 1, 2).Tail())
}

func TestNumbersOutliveRetention(t *testing.T) {
	t.Parallel()
	// Long enough to be read, on a busy machine, before it is gone.
	b := setup(t, func(o *Options) { o.MaxAge = 10 * time.Second })
	aged := func() {
		require.Eventually(t, func() bool {
			_, err := b.Tail(t.Context(), "s1")
			return errors.Is(err, ErrNotFound)
		}, time.Minute, 10*time.Millisecond)
	}
	w := b.writer(t, "s1", 1, 1)
	_, err := w.Append(t.Context(), say("a", "b"), Position{})
	require.NoError(t, err)
	aged()
	require.Empty(t, read(t, b.Log, "s1", 3), "a reader that has all waits for the next")

	last, err := w.Append(t.Context(), say("c"), Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"status", "log", "c"}, read(t, b.Log, "s1", 3), "the writer remembers")
	aged()
	w, err = b.Writer(t.Context(), "s1", Fence{2, 1}, WriterOptions{LastSeq: last})
	require.NoError(t, err)
	require.Equal(t, last+1, w.Tail().LastSeq, "or is told")
	require.Equal(t, []string{"status"}, read(t, b.Log, "s1", last))
}

// A stream that is deleted in use is made again by its next user. No number is
// repeated, subscribers are informed and miss nothing new, and deleted events are
// an error.
func TestDeletedStreamIsMadeAnew(t *testing.T) {
	t.Parallel()
	var said lockedBuffer
	b := setup(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	old := b.writer(t, "s1", 1, 1)
	w := b.writer(t, "s1", 1, 2)
	last, err := w.Append(t.Context(), say("a", "b"), Position{Epoch: 1, Offset: 7})
	require.NoError(t, err)
	beside, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k", LastSeq: last, Events: say("beside")})
	require.NoError(t, err)
	ended, follower := make(chan *GapError), b.again(t)
	go func() { ended <- gapOf(follower.Read(t.Context(), "s1", beside, ReadOptions{Follow: true})) }()

	began := time.Now()
	require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))
	next, err := w.Append(t.Context(), say("c"), Position{Epoch: 1, Offset: 9})
	require.NoError(t, err)
	anew, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	require.GreaterOrEqual(t, anew.CachedInfo().Created.Sub(began), deletionTime, "the server may still be removing the old one's folder")
	require.Greater(t, next, beside, "no number comes twice, also not that of an event the writer has not heard of")
	gap := <-ended
	require.NotNil(t, gap)
	require.ErrorIs(t, gap, ErrPurged, "a follower is told that something may be gone")
	require.Equal(t, next-2, gap.Have)
	require.Equal(t, []string{"status", "log", "c"}, read(t, b.Log, "s1", gap.Have-1), "the fence is taken again, with a word on why")
	require.ErrorIs(t, gapAfter(t, b.Log, "s1", 1), ErrPurged, "what is gone is an error")
	require.Contains(t, said.String(), "the stream was deleted: it is made anew")

	_, err = old.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced, "the fence holds in the new stream too")
	tail, err := b.Tail(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, Position{Epoch: 1, Offset: 9}, tail.Position)
}

// Another writer may be the first to write to a stream that was made again.
func TestDeletedStreamWithOthersFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	last, err := w.Append(t.Context(), say("a", "b"), Position{Epoch: 1, Offset: 7})
	require.NoError(t, err)
	require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))
	for _, id := range []string{"s2", "s1"} {
		_, err = b.Emit(t.Context(), id, Emission{Fence: Fence{Epoch: 1}, Key: "k", LastSeq: last, Events: say("beside")})
		require.NoError(t, err)
	}
	_, err = w.Append(t.Context(), say("c"), Position{Epoch: 1, Offset: 9})
	require.NoError(t, err)
	gap := gapAfter(t, b.Log, "s1", last)
	require.ErrorIs(t, gap, ErrPurged, "who writes first may not know the last number, so it gives none that could have been")
	require.Equal(t, []string{"beside", "status", "log", "c"}, read(t, b.Log, "s1", gap.Have-1))
}

// Writers that have only an old number, of a deleted log, repeat no number that
// was assigned meanwhile.
func TestDeletedStreamGivesNoNumberAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	known := b.writer(t, "s1", 1, 1).Tail().LastSeq
	for attempt := 2; attempt < 5; attempt++ {
		w, err := b.Writer(t.Context(), "s1", Fence{1, attempt}, WriterOptions{LastSeq: known})
		require.NoError(t, err)
		_, err = w.Append(t.Context(), say("a", "b", "c"), Position{})
		require.NoError(t, err)
		require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))
		last, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1, Attempt: attempt}, Key: "k", LastSeq: known, Events: say("d")})
		require.NoError(t, err)
		require.Greater(t, last, w.Tail().LastSeq)
		require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))
	}
}

// The highest fence is lost with the stream: a writer confirms with other sources
// before it takes its own again.
func TestDeletedStreamAsksForTheFence(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	asked := 0
	w, err := b.Writer(t.Context(), "s1", Fence{1, 1}, WriterOptions{Confirm: func(context.Context) error {
		if asked++; asked == 1 {
			return errors.New("away")
		}
		return ErrFenced
	}})
	require.NoError(t, err)
	stored := w.Tail()
	require.NoError(t, b.js.DeleteStream(t.Context(), b.opts.Name))
	_, err = w.Append(t.Context(), say("late"), Position{})
	require.ErrorIs(t, err, ErrFenced)
	require.Equal(t, 2, asked)
	require.Equal(t, stored, w.Tail(), "numbers would continue behind one that no event has")
	_, err = b.Tail(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNotFound)
}

// gapAfter reads behind after and returns the gap that ends it.
func gapAfter(t *testing.T, log *Log, id string, after uint64) *GapError {
	t.Helper()
	gap := gapOf(log.Read(t.Context(), id, after, ReadOptions{}))
	require.NotNil(t, gap)
	return gap
}

// gapOf returns the gap that ends the events, or nil if something else does.
func gapOf(events iter.Seq2[event.Event, error]) *GapError {
	var end error
	for _, err := range events {
		end = err
	}
	gap, _ := errors.AsType[*GapError](end)
	return gap
}

func TestGapsAreErrors(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	var places []uint64
	for i := range 6 {
		_, err := w.Append(t.Context(), say(fmt.Sprint(i)), Position{})
		require.NoError(t, err)
		places = append(places, w.c.at)
	}
	s, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)

	gap := gapAfter(t, b.Log, "s1", 8)
	require.ErrorIs(t, gap, ErrGap, "the log ends before what the reader claims to have")

	require.NoError(t, s.DeleteMsg(t.Context(), places[3]))
	gap = gapAfter(t, b.Log, "s1", 0)
	require.ErrorIs(t, gap, ErrGap)
	require.Equal(t, GapError{SessionID: "s1", Want: 5, Have: 6}, *gap)

	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject("s1")), jetstream.WithPurgeSequence(places[2])))
	gap = gapAfter(t, b.Log, "s1", 0)
	require.ErrorIs(t, gap, ErrPurged)
	require.Equal(t, GapError{SessionID: "s1", Want: 1, Have: 4, Purged: true}, *gap)
	require.ErrorIs(t, gapAfter(t, b.Log, "s1", 2), ErrPurged)
	require.ErrorIs(t, gapAfter(t, b.Log, "s1", 4), ErrGap, "nothing behind event 4 was taken by retention")
	require.Equal(t, []string{"4", "5"}, read(t, b.Log, "s1", 5))
}

// Retention may end inside a batch of several parts: the rest of it is past too.
func TestRetentionInsideABatch(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 1000 })
	w := b.writer(t, "s1", 1, 1)
	before := w.c.at
	_, err := w.Append(t.Context(), say(strings.Repeat("x", 3000)), Position{})
	require.NoError(t, err)
	require.Greater(t, w.c.at, before+2, "it is in parts")
	_, err = w.Append(t.Context(), say("small"), Position{})
	require.NoError(t, err)
	s, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject("s1")), jetstream.WithPurgeSequence(before+2)))

	gap := gapAfter(t, b.Log, "s1", 1) // in front of the batch's only event
	require.Equal(t, GapError{SessionID: "s1", Want: 2, Have: 3, Purged: true}, *gap)
	var left []uint64
	for e, err := range Left(0, func(after uint64) iter.Seq2[event.Event, error] {
		return b.Read(t.Context(), "s1", after, ReadOptions{})
	}) {
		require.NoError(t, err)
		left = append(left, e.Context.Seq)
	}
	require.Equal(t, []uint64{3}, left)
}

// What retention left of a torn batch is past too, and what was appended under its numbers
// is not.
func TestRetentionInsideATornBatch(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 1000 })
	w := b.writer(t, "s1", 1, 1)
	s, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	before := w.c.at
	tear(t, b.Log, w, 3)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject("s1")), jetstream.WithPurgeSequence(before+2)))
	left := func(after uint64) (texts []string) {
		for e, err := range Left(after, func(after uint64) iter.Seq2[event.Event, error] {
			return b.Read(t.Context(), "s1", after, ReadOptions{})
		}) {
			require.NoError(t, err)
			texts = append(texts, text(e))
		}
		return texts
	}
	require.Empty(t, left(0))
	events := follower(t, b.again(t), "s1", 1)

	_, err = w.Append(t.Context(), say("a", "b"), Position{})
	require.NoError(t, err)
	require.Equal(t, "a", text(<-events))
	require.Equal(t, []string{"a", "b"}, left(0))
	require.Equal(t, []string{"a", "b"}, left(1))
	require.Equal(t, []string{"b"}, left(2), "the reader begins inside")
	require.Equal(t, GapError{SessionID: "s1", Want: 1, Have: 2, Purged: true}, *gapAfter(t, b.Log, "s1", 0))
}

func TestSessionsAndNamespacesAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	o := b.opts
	o.Namespace = "other.space > * ü"
	other, err := Open(t.Context(), b.nc, o)
	require.NoError(t, err)
	for _, log := range []*Log{b.Log, other} {
		for _, id := range []string{"s1", "s2"} {
			_, err := log.Writer(t.Context(), id, Fence{1, 1}, WriterOptions{})
			require.NoError(t, err)
		}
	}
	require.NoError(t, other.Purge(t.Context(), "s1"))
	require.Equal(t, []string{"status"}, read(t, b.Log, "s1", 0))
	require.Equal(t, []string{"status"}, read(t, other, "s2", 0))
	require.Empty(t, read(t, other, "s1", 0))
}

func TestTokensAreSafeAndDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, s := range []string{"", "=", "a", "a.b", "a=2Eb", "*", ">", " ", "ü", "A", "a-b_c", "\n"} {
		tok := token(s)
		require.NotEmpty(t, tok)
		require.Empty(t, strings.Trim(tok, idChars+"="), s)
		require.Empty(t, seen[tok], "%q and %q", s, seen[tok])
		seen[tok] = s + "!"
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, id := range []string{"", "a.b", "a>", "a b", strings.Repeat("x", 65)} {
		_, err := b.Writer(t.Context(), id, Fence{1, 1}, WriterOptions{})
		require.ErrorContains(t, err, "session id")
		_, err = b.Emit(t.Context(), id, Emission{Key: "k", Events: say("x")})
		require.ErrorContains(t, err, "session id")
		_, err = b.Tail(t.Context(), id)
		require.ErrorContains(t, err, "session id")
		require.ErrorContains(t, b.Purge(t.Context(), id), "session id")
		for _, err := range b.Read(t.Context(), id, 0, ReadOptions{}) {
			require.ErrorContains(t, err, "session id")
		}
	}
	_, err := b.Writer(t.Context(), "s1", Fence{1, 0}, WriterOptions{})
	require.ErrorContains(t, err, "attempt")
	w := b.writer(t, "s1", 1, 1)
	_, err = w.Append(t.Context(), append(say("x"), event.Event{}), Position{})
	require.ErrorIs(t, err, ErrEvent)
	broken := event.Event{Payload: event.Unknown{Name: "x", Raw: []byte("{")}}
	_, err = w.Append(t.Context(), []event.Event{broken}, Position{})
	require.ErrorIs(t, err, ErrEvent)
	last, err := w.Append(t.Context(), say("fine"), Position{})
	require.NoError(t, err, "a bad event does no harm to the writer")
	require.Equal(t, uint64(2), last)
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Options{
		"Name": {Name: "a.b"}, "Prefix": {Prefix: "a..b"}, "MaxBatch": {MaxBatch: -1},
	} {
		_, err := Open(t.Context(), nil, o)
		require.ErrorContains(t, err, field)
	}
}

func TestUnreachableSaysWhereAndWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := Dial(t.Context(), "nats://127.0.0.1:1", Options{})
	down, ok := errors.AsType[*UnreachableError](err)
	require.True(t, ok, "got %v", err)
	require.ErrorIs(t, err, nats.ErrNoServers)
	require.Contains(t, err.Error(), "127.0.0.1:1")
	require.NotContains(t, err.Error(), "\n")
	require.Contains(t, down.Hint, "NATS_URL")
}

func TestOpenIsIdempotentAndKeepsTheOperatorsChoices(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s, err := b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxBytes, c.RePublish, c.AllowDirect = 1<<30, nil, false
	_, err = b.js.UpdateStream(t.Context(), c)
	require.NoError(t, err)

	again := b.again(t)
	s, err = b.js.Stream(t.Context(), b.opts.Name)
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), s.CachedInfo().Config.MaxBytes)
	require.True(t, s.CachedInfo().Config.AllowDirect)
	require.NotNil(t, s.CachedInfo().Config.RePublish)
	require.Empty(t, read(t, again, "s1", 0))

	o := b.opts
	o.Prefix = "elsewhere"
	_, err = Dial(t.Context(), b.url, o)
	require.ErrorContains(t, err, "serves other subjects")
}

func TestClosedLog(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	log := b.again(t)
	log.Close()
	log.Close()
	_, err := log.Tail(context.Background(), "s1")
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}

func TestR72ListChanges(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	log := b.again(t)
	var got []Change
	for c, err := range log.Changes(t.Context()) {
		require.NoError(t, err)
		got = append(got, c)
		if len(got) == 1 {
			require.NoError(t, b.Changed(t.Context(), "s1", ChangeCreated))
			require.NoError(t, b.nc.Publish(b.changesSubject(), []byte("no JSON")))
			require.NoError(t, b.Changed(t.Context(), "s1", ChangeClosed))
		}
		if len(got) == 4 {
			break
		}
	}
	require.Equal(t, []Change{{"", ChangeMissed}, {"s1", ChangeCreated}, {"", ChangeMissed}, {"s1", ChangeClosed}}, got)
}

// After every number, in sessions whose messages are interleaved and whose
// batches are short, long, in parts and torn.
func TestReadAfterEveryNumber(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 600 })
	rng := rand.New(rand.NewPCG(3, 4))
	ids := []string{"s1", "s2", "s3"}
	want := map[string][]string{}
	writers := map[string]*Writer{}
	for _, id := range ids {
		writers[id] = b.writer(t, id, 1, 1)
		want[id] = []string{"status"}
	}
	for i := range 150 {
		id := ids[rng.IntN(len(ids))]
		w := writers[id]
		var texts []string
		for j := range 1 + rng.IntN(6) {
			texts = append(texts, fmt.Sprintf("%d.%d%s", i, j, strings.Repeat("-", rng.IntN(300))))
		}
		if rng.IntN(5) == 0 {
			tear(t, b.Log, w, 1)
		}
		_, err := w.Append(t.Context(), say(texts...), Position{})
		require.NoError(t, err)
		want[id] = append(want[id], texts...)
	}
	for _, id := range ids {
		for after := range len(want[id]) {
			require.Equal(t, want[id][after:], read(t, b.Log, id, uint64(after)), "%s after %d", id, after)
		}
	}
}

// tear appends the first parts of a batch, like a writer that then dies.
func tear(t *testing.T, log *Log, w *Writer, count int) {
	torn, err := encodeBatch(w.session, w.c.last+1, []item{{events: say(strings.Repeat("torn", 999))}}, log.limit)
	require.NoError(t, err)
	parts := torn.messages(message{fence: w.c.fence, pos: w.c.pos, batch: log.batchID()}, log.limit)
	at := w.c.at
	for _, m := range parts[:count] {
		at, err = log.put(t.Context(), log.subject(w.session), at, m)
		require.NoError(t, err)
	}
}
