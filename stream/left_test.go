package stream

import (
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// retained reads a stream as [Log.Read] does. Its first events are purged; firsts are
// the first ones that are left, one for each read, since retention continues meanwhile.
func retained(events []event.Event, firsts ...uint64) func(uint64) iter.Seq2[event.Event, error] {
	return func(after uint64) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			first := firsts[0]
			firsts = firsts[min(1, len(firsts)-1):]
			if after+1 < first {
				yield(event.Event{}, &GapError{SessionID: "s1", Want: after + 1, Have: first, Purged: true})
				return
			}
			for _, e := range events[after:] {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// fiveEvents are the events 1 to 5.
func fiveEvents() (events []event.Event) {
	for seq := range uint64(5) {
		events = append(events, event.Event{Payload: event.SessionIdle{}, Context: event.Context{SessionID: "s1", Seq: seq + 1}})
	}
	return events
}

// What is left of a session is read, from the first event that is there.
func TestLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		firsts []uint64
		after  uint64
		want   []uint64
	}{
		"all":                  {[]uint64{1}, 0, []uint64{1, 2, 3, 4, 5}},
		"the rest":             {[]uint64{1}, 3, []uint64{4, 5}},
		"the beginning purged": {[]uint64{3}, 0, []uint64{3, 4, 5}},
		"more in the meantime": {[]uint64{3, 5}, 0, []uint64{5}},
	} {
		var got []uint64
		for e, err := range Left(c.after, retained(fiveEvents(), c.firsts...)) {
			require.NoError(t, err, name)
			got = append(got, e.Context.Seq)
		}
		require.Equal(t, c.want, got, name)
	}
}

// A gap behind an event, and one that retention did not make, are errors.
func TestLeftReportsAGap(t *testing.T) {
	t.Parallel()
	hole := &GapError{SessionID: "s1", Want: 1, Have: 3}
	late := &GapError{SessionID: "s1", Want: 2, Have: 4, Purged: true}
	none := &GapError{SessionID: "s1", Want: 1, Purged: true}
	for _, c := range []struct {
		events []event.Event
		gap    *GapError
	}{{nil, hole}, {fiveEvents()[:1], late}, {nil, none}} {
		var last error
		for _, err := range Left(0, func(uint64) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) {
				for _, e := range c.events {
					if !yield(e, nil) {
						return
					}
				}
				yield(event.Event{}, c.gap)
			}
		}) {
			last = err
		}
		require.Equal(t, error(c.gap), last)
	}
}
