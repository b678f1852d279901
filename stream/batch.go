package stream

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// item is the input of one call: events, and the position of the last of them.
type item struct {
	events []event.Event
	pos    Position
	// weight is about the memory that the events take in a queue.
	weight int
}

// batch is numbered and encoded events, ready to be sent.
type batch struct {
	data        []byte
	first, last uint64
	// pos is the position of the last event from a spool; zero if there is none.
	pos Position
	// items is how many items it contains.
	items int
}

// encodeBatch numbers and encodes items from first on, until the next item would
// make the batch longer than limit. It contains at least one item.
func encodeBatch(sessionID string, first uint64, items []item, limit int) (batch, error) {
	b := batch{first: first, last: first - 1}
	for _, it := range items {
		start := len(b.data)
		data, err := appendEvents(b.data, sessionID, b.last+1, it.events)
		if b.items > 0 && (err != nil || len(data) > limit) {
			// The valid items are sent first; the error is returned with the next batch.
			b.data = b.data[:start]
			break
		}
		if err != nil {
			return batch{}, err
		}
		b.data = data
		b.last += uint64(len(it.events))
		b.items++
		if it.pos != (Position{}) {
			b.pos = it.pos
		}
	}
	return b, nil
}

func appendEvents(dst []byte, sessionID string, seq uint64, events []event.Event) ([]byte, error) {
	for i, e := range events {
		e.Context.SessionID = sessionID
		e.Context.Seq = seq + uint64(i)
		line, err := e.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%w: event %d of %d: %w", ErrEvent, i+1, len(events), err)
		}
		dst = append(append(dst, line...), '\n')
	}
	return dst, nil
}

// messages returns the batch's messages: one, or parts of at most limit bytes.
// All but the last keep the log's current position; like has the fields that they
// share.
func (b batch) messages(like message, limit int) []message {
	parts := max(1, (len(b.data)+limit-1)/limit)
	out := make([]message, 0, parts)
	like.first, like.last, like.parts = b.first, b.last, parts
	keys := like.keys
	for i := range parts {
		m := like
		m.part = i + 1
		m.data = b.data[i*limit : min((i+1)*limit, len(b.data))]
		m.keys = nil
		if m.part == parts {
			m.keys = keys
			if b.pos != (Position{}) {
				m.pos = b.pos
			}
		}
		out = append(out, m)
	}
	return out
}

// decodeBatch reads the events first to last from the lines of a whole batch.
func decodeBatch(data []byte, first, last uint64) ([]event.Event, error) {
	lines := bytes.Count(data, []byte{'\n'})
	if last < first || uint64(lines) != last-first+1 || len(data) == 0 || data[len(data)-1] != '\n' {
		return nil, fmt.Errorf("%w: %d lines for the events %d to %d", ErrCorrupt, lines, first, last)
	}
	events := make([]event.Event, 0, lines)
	for line := range bytes.Lines(data) {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrCorrupt, len(events)+1, err)
		}
		if want := first + uint64(len(events)); e.Context.Seq != want {
			return nil, fmt.Errorf("%w: line %d has number %d, want %d", ErrCorrupt, len(events)+1, e.Context.Seq, want)
		}
		events = append(events, e)
	}
	return events, nil
}

// joiner joins the parts of batches. It discards a batch whose parts stop: its
// writer died or lost its place, and its numbers were never returned to a caller.
type joiner struct {
	batch string
	part  int
	data  []byte
	// rest is the stream number of the first part that was seen of a batch whose
	// beginning was not; 0 if it was.
	rest uint64
}

// add takes the next message and returns the data of the batch that it completes.
// If the beginning of that batch was not seen, it returns instead the stream number
// from which on it was. One that its writer did not complete is not missing: another
// batch has its numbers.
func (j *joiner) add(m message) (data []byte, whole bool, rest uint64) {
	if m.parts == 1 {
		*j = joiner{}
		return m.data, true, 0
	}
	switch {
	case m.part == 1:
		*j = joiner{batch: m.batch}
	case m.batch != j.batch || m.part != j.part+1:
		*j = joiner{batch: m.batch, rest: m.at}
	}
	j.part = m.part
	if j.rest == 0 {
		j.data = append(j.data, m.data...)
	}
	if m.part < m.parts {
		return nil, false, 0
	}
	end := *j
	*j = joiner{}
	return end.data, end.rest == 0, end.rest
}
