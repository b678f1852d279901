package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
)

// Follow makes Events go on with what comes, until the context ends or the
// session closes.
const Follow = true

// Events gives the session's events after a sequence number: N+1 next, each
// once, in order. Without follow it ends at the last event there is. With
// follow it ends after session:closed. An error is the last thing it gives;
// a gap is an error.
func (h *Handle) Events(ctx context.Context, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return h.c.Events(ctx, h.id, after, follow)
}

// Events is Handle.Events for an id, with no question to Temporal.
func (c *Client) Events(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if c.o.Stream == nil {
			yield(event.Event{}, fmt.Errorf("events of session %s: no stream is configured", id))
			return
		}
		for ev, err := range c.o.Stream.Read(ctx, id, after, stream.ReadOptions{Follow: follow}) {
			if !yield(ev, err) || err != nil {
				return
			}
			if _, closed := ev.Payload.(event.SessionClosed); closed && follow && c.lastOf(ctx, id, ev) {
				return
			}
		}
	}
}

// lastOf says whether nothing came after an event: a session that was closed
// may have been reopened since.
func (c *Client) lastOf(ctx context.Context, id string, ev event.Event) bool {
	tail, err := c.o.Stream.Tail(ctx, id)
	return err != nil || tail.LastSeq <= ev.Context.Seq
}

// Changes tells whoever shows a list of sessions when to fetch it again, until
// ctx ends.
func (c *Client) Changes(ctx context.Context) iter.Seq2[stream.Change, error] {
	return c.o.Stream.Changes(ctx)
}

// Wait waits until the message of a receipt is answered, has failed or was
// interrupted: the Result says which. It reads the stream, or after the
// stream's retention asks the workflow. The error is about the waiting only.
func (h *Handle) Wait(ctx context.Context, r Receipt) (Result, error) {
	for after := r.AfterSeq; ; {
		for ev, err := range h.Events(ctx, after, Follow) {
			if errors.Is(err, stream.ErrPurged) {
				return h.Result(ctx, r.ExecutionID)
			}
			if err != nil {
				return Result{}, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
			}
			if res, ended := ResultOf(ev, r.MessageID); ended {
				return res, nil
			}
			after = ev.Context.Seq
		}
		// An operator's reset opens a session that was closed.
		if err := h.live(ctx); err != nil {
			return Result{}, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
		}
	}
}

// ResultOf reads an event as the end of a message's execution, if it is that.
func ResultOf(ev event.Event, messageID string) (Result, bool) {
	var q event.Query
	var out Outcome
	switch p := ev.Payload.(type) {
	case event.QueryCompleted:
		q, out = p.Query, Completed
	case event.QueryFailed:
		q, out = p.Query, Failed
	case event.QueryInterrupted:
		q, out = p.Query, Interrupted
	default:
		return Result{}, false
	}
	if !slices.Contains(q.MessageIDs, messageID) {
		return Result{}, false
	}
	return Result{ExecutionID: q.ExecutionID, MessageID: messageID, Outcome: out, Result: q.Result, Error: q.Error, Reason: q.Reason}, true
}
