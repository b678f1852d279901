package stream

import (
	"context"
	"errors"
)

// locate returns the stream number behind which the batch with the reader's next
// event begins. It is retried as a whole if the stream did not answer.
func (r *reader) locate(ctx context.Context) (uint64, error) {
	last, err := r.log.getLast(ctx, r.subject)
	if errors.Is(err, ErrNotFound) {
		// All is past retention, or there was nothing: either way the reader continues
		// with next.
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	end := behind(last)
	switch {
	case r.next > end.last+1:
		return 0, &GapError{SessionID: r.session, Want: r.next}
	case r.next == end.last+1 && !end.torn:
		return end.at, nil
	}
	m, before, err := r.search(ctx, last, r.next)
	if err != nil || m.first == r.next || before.at == 0 {
		return m.at - 1, err
	}
	// The event is inside the batch before; its parts, and torn batches in
	// front of it, have the same first number.
	r.from = before.first
	m, _, err = r.search(ctx, last, before.first)
	return m.at - 1, err
}

// search returns the first message whose batch begins at number first or behind
// it, and the one before that message, if any; both are the last one if none
// begins there. First numbers never fall along a subject.
func (r *reader) search(ctx context.Context, last message, first uint64) (found, before message, err error) {
	if last.first < first {
		return last, last, nil
	}
	found, err = r.log.getNext(ctx, r.subject, 1)
	if err != nil || found.first >= first {
		return found, before, err
	}
	before, found = found, last
	low, high := before.at+1, last.at
	for low < high {
		middle := low + (high-low)/2
		m, err := r.log.getNext(ctx, r.subject, middle)
		switch {
		case errors.Is(err, ErrNotFound):
			high = middle // only foreign messages follow
		case err != nil:
			return found, before, err
		case m.first >= first:
			found, high = m, middle
		default:
			before, low = m, m.at+1
		}
	}
	return found, before, nil
}
