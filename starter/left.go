package starter

import (
	"context"
	"errors"
	"iter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// eventsLeft yields what read yields behind after. If the next events are past the stream's
// retention, it begins with the first one that is left; a later gap is an error.
func eventsLeft(after uint64, read func(after uint64) iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for purged := true; purged; {
			begun := false
			purged = false
			for e, err := range read(after) {
				gap, _ := errors.AsType[*stream.GapError](err)
				if purged = !begun && gap != nil && gap.Purged && gap.Have > after+1; purged {
					after = gap.Have - 1
					break
				}
				begun = true
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// asks returns the open permission requests of a session that the stream still has, oldest
// first. It needs neither Temporal nor the archive.
func (c *cli) asks(ctx context.Context, id string) ([]event.Event, error) {
	sc, err := c.client(ctx, needStream)
	if err != nil {
		return nil, err
	}
	return openIn(eventsLeft(0, func(after uint64) iter.Seq2[event.Event, error] { return sc.Events(ctx, id, after, false) }))
}

// openIn returns the permission requests that are open after the events. After an error
// they are those before it.
func openIn(events iter.Seq2[event.Event, error]) (open []event.Event, err error) {
	for e, err := range events {
		if err != nil {
			return open, err
		}
		open = session.OpenRequests(open, e)
	}
	return open, nil
}
