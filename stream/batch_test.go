package stream

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestHeaderRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []message{
		{first: 1, last: 1, batch: "b", part: 1, parts: 1},
		{at: 9, first: 5, last: 9, fence: Fence{3, 2}, pos: Position{3, 1 << 40, 7}, batch: "b1", part: 2, parts: 3, keyed: 4, keys: []string{"a", "b"}, data: []byte("x")},
	} {
		got, err := parseMessage(want.at, want.header(), want.data)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestMalformedHeaders(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		headerFirst: "0", headerLast: "4", headerEpoch: "-1", headerAttempt: "x", headerPosition: "1.2",
		headerBatch: "", headerPart: "4/3", headerKeyed: "?",
	} {
		h := message{first: 5, last: 9, batch: "b", part: 1, parts: 1}.header()
		h[name] = []string{value}
		_, err := parseMessage(1, h, nil)
		require.ErrorIs(t, err, ErrCorrupt, name)
		if name != headerFirst {
			require.ErrorContains(t, err, name)
		}
	}
	_, err := parseMessage(1, nats.Header{}, nil)
	require.ErrorIs(t, err, ErrCorrupt)
}

// For any sizes and limit, the events are read as they were written.
func TestBatchRoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var items []item
		for range 1 + rng.IntN(5) {
			var texts []string
			for range 1 + rng.IntN(4) {
				texts = append(texts, strings.Repeat("ü\n", rng.IntN(200)))
			}
			items = append(items, item{events: say(texts...), pos: Position{1, rng.Int64N(99), 0}})
		}
		limit, first := 1+rng.IntN(3000), 1+rng.Uint64N(1000)
		b, err := encodeBatch("s", first, items, limit)
		require.NoError(t, err)
		require.Positive(t, b.items)
		require.True(t, b.items == 1 || len(b.data) <= limit)
		require.Equal(t, items[b.items-1].pos, b.pos)
		var want []string
		for _, it := range items[:b.items] {
			for _, e := range it.events {
				want = append(want, text(e))
			}
		}
		require.Equal(t, want, joined(t, b.messages(message{batch: "b"}, limit), limit))
	}
}

// joined returns what a reader makes of messages.
func joined(t *testing.T, messages []message, limit int) []string {
	t.Helper()
	var j joiner
	for i, m := range messages {
		require.LessOrEqual(t, len(m.data), limit)
		data, whole, rest := j.add(m)
		require.Zero(t, rest)
		require.Equal(t, i == len(messages)-1, whole)
		if !whole {
			continue
		}
		events, err := decodeBatch(data, m.first, m.last)
		require.NoError(t, err)
		var out []string
		for _, e := range events {
			out = append(out, text(e))
		}
		return out
	}
	return nil
}

func TestTornBatchIsForgotten(t *testing.T) {
	t.Parallel()
	var j joiner
	for i, c := range []struct {
		batch       string
		part, parts int
		data        string
		whole       bool
		rest        uint64
	}{
		{batch: "a", part: 1, parts: 3},
		{batch: "b", part: 1, parts: 1, data: "b", whole: true},
		{batch: "c", part: 2, parts: 4}, // without its beginning, and torn
		{batch: "d", part: 1, parts: 2},
		{batch: "d", part: 2, parts: 2, data: "dd", whole: true},
		{batch: "e", part: 2, parts: 3},
		{batch: "e", part: 3, parts: 3, rest: 16}, // without its beginning, and complete
		{batch: "f", part: 3, parts: 3, rest: 18},
	} {
		data, whole, rest := j.add(message{at: uint64(11 + i), first: 5, last: 5, batch: c.batch, part: c.part, parts: c.parts, data: []byte(c.batch)})
		require.Equal(t, c.data, string(data), c.batch)
		require.Equal(t, c.whole, whole, c.batch)
		require.Equal(t, c.rest, rest, c.batch)
	}
}

// The valid items are sent first; the bad item is named when its turn comes.
func TestBadItemWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	broken := []event.Event{{Payload: event.Unknown{Name: "x", Raw: []byte("{")}}}
	items := []item{{events: say("a")}, {events: broken}}
	b, err := encodeBatch("s", 1, items, 1<<20)
	require.NoError(t, err)
	require.Equal(t, 1, b.items)
	require.Equal(t, uint64(1), b.last)
	_, err = encodeBatch("s", 2, items[1:], 1<<20)
	require.ErrorIs(t, err, ErrEvent)
}

func FuzzDecodeBatch(f *testing.F) {
	b, err := encodeBatch("s", 3, []item{{events: say("a", "b\n")}}, 1<<20)
	require.NoError(f, err)
	f.Add("3", "4", "1.2.3", "1/1", b.data)
	f.Add("3", "3", "1.2.3", "2/3", b.data)
	f.Add("1", "18446744073709551615", "0.0.0", "", []byte("\n"))
	f.Add("0", "x", "", "9/1", []byte(`{"type":"status"}`))
	f.Fuzz(func(t *testing.T, first, last, pos, part string, data []byte) {
		m, err := parseMessage(7, nats.Header{
			headerFirst: {first}, headerLast: {last}, headerEpoch: {"1"}, headerAttempt: {"1"},
			headerPosition: {pos}, headerBatch: {"b"}, headerPart: {part},
		}, data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.LessOrEqual(t, m.part, m.parts)
		events, err := decodeBatch(data, m.first, m.last)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.Equal(t, m.last-m.first+1, uint64(len(events)))
		again, err := encodeBatch(events[0].Context.SessionID, m.first, []item{{events: events}}, 1)
		require.NoError(t, err)
		_, err = decodeBatch(again.data, m.first, m.last)
		require.NoError(t, err)
		require.Equal(t, bytes.Count(again.data, []byte{'\n'}), len(events))
		require.True(t, json.Valid(bytes.Split(again.data, []byte{'\n'})[0]))
	})
}
