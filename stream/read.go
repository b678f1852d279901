package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sojourn-run/sojourn/event"
)

// ReadOptions are the options of a read. The zero value reads the stored events.
type ReadOptions struct {
	// Follow continues with new events until ctx ends; default false: end behind the
	// last event.
	Follow bool
}

// Read yields the events behind number after: after+1 first, then every one once
// and in order. 0 reads from the beginning. An error is yielded last: a
// [*GapError] if the next event can't be read, ctx's own error when it ends. A
// session without events in the stream yields nothing; with Follow, new events.
//
// Lost connections and server restarts don't end it: a follower continues where
// it was until ctx ends, and without Follow a few tries are made. Nothing remains
// on the server or in the process when the loop ends.
func (l *Log) Read(ctx context.Context, sessionID string, after uint64, o ReadOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r := &reader{log: l, session: sessionID, subject: l.subject(sessionID), next: after + 1, yield: yield, again: l.patiently}
		err := checkID(sessionID)
		switch {
		case err == nil && o.Follow:
			r.again = l.insist
			err = r.follow(ctx)
		case err == nil:
			err = r.begin(ctx)
			if err == nil {
				err = r.catchUp(ctx)
			}
		}
		switch gap, isGap := errors.AsType[*GapError](err); {
		case err == nil || errors.Is(err, errStopped):
		case isGap:
			gap.Purged = r.purged(ctx)
			yield(event.Event{}, gap)
		default:
			yield(event.Event{}, fmt.Errorf("stream: session %s: read event %d: %w", sessionID, r.next, err))
		}
	}
}

// errStopped means that the loop over the events was left.
var errStopped = errors.New("reader stopped")

// reader is one Read. next is the event to yield next, and at the stream number
// of the last message read.
type reader struct {
	log     *Log
	session string
	subject string
	next    uint64
	at      uint64
	// begun means that an event was yielded.
	begun bool
	// from is the first number of the batch that has next inside, 0 if next begins
	// its batch.
	from  uint64
	join  joiner
	yield func(event.Event, error) bool
	// again retries during an outage.
	again func(context.Context, func(context.Context) error) error
}

// begin finds the place of the next event.
func (r *reader) begin(ctx context.Context) error {
	if r.next == 1 {
		return nil
	}
	return r.again(ctx, func(ctx context.Context) (err error) {
		r.at, err = r.locate(ctx)
		return err
	})
}

// catchUp yields all events of the stream behind the reader's position.
func (r *reader) catchUp(ctx context.Context) error {
	count := fetchFirst
	for more := true; more; count = min(4*count, fetchMost) {
		var messages []message
		err := r.again(ctx, func(ctx context.Context) (err error) {
			messages, more, err = r.log.fetch(ctx, r.subject, r.at+1, count)
			return err
		})
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := r.take(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// take moves the reader behind a message and yields the events that it completes.
func (r *reader) take(m message) error {
	if m.at <= r.at {
		return nil
	}
	if m.parts == 0 { // foreign
		r.at = m.at
		return nil
	}
	if err := r.expect(m); err != nil {
		return err
	}
	r.at = m.at
	data, whole, rest := r.join.add(m)
	if rest > 0 {
		r.at = rest - 1 // what retention left of a batch is not read
		return &GapError{SessionID: r.session, Want: r.next, Have: m.last + 1}
	}
	if !whole {
		return nil
	}
	events, err := decodeBatch(data, m.first, m.last)
	if err != nil {
		return fmt.Errorf("message %d: %w", m.at, err)
	}
	return r.give(events)
}

// expect checks that a batch begins at the reader's position. Only the first one
// may begin before, at the place that locate found.
func (r *reader) expect(m message) error {
	inside := !r.begun && r.from > 0 && m.first >= r.from && m.first < r.next
	if m.first == r.next || inside {
		return nil
	}
	return &GapError{SessionID: r.session, Want: r.next, Have: m.first}
}

// purged distinguishes a gap made by retention from a hole: nothing up to the
// reader's position is left.
func (r *reader) purged(ctx context.Context) bool {
	var first message
	err := r.log.patiently(ctx, func(ctx context.Context) (err error) {
		first, err = r.log.getNext(ctx, r.subject, 1)
		return err
	})
	return err == nil && first.at > r.at && first.last >= r.next
}

func (r *reader) give(events []event.Event) error {
	for _, e := range events {
		if e.Context.Seq < r.next {
			continue
		}
		r.begun = true
		r.next++
		if !r.yield(e, nil) {
			return errStopped
		}
	}
	return nil
}
