package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/stream"
)

// Follow makes Events continue with new events, until the context ends or the
// session closes.
const Follow = true

// Events returns the session's events after a sequence number: first N+1, each once, in
// order. Without follow it ends at the last stored event. With follow it ends after
// session:closed. An error is the last element; a gap is an error.
func (h *Handle) Events(ctx context.Context, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return h.c.Events(ctx, h.id, after, follow)
}

// Events is Handle.Events for an id, without a request to Temporal.
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

// lastOf reports whether an event is the last: a closed session may have been
// reopened since.
func (c *Client) lastOf(ctx context.Context, id string, ev event.Event) bool {
	tail, err := c.o.Stream.Tail(ctx, id)
	return err != nil || tail.LastSeq <= ev.Context.Seq
}

// Changes yields a change whenever a shown list of sessions must be fetched again, until
// ctx ends.
func (c *Client) Changes(ctx context.Context) iter.Seq2[stream.Change, error] {
	return c.o.Stream.Changes(ctx)
}

// Wait waits until the message of a receipt is answered, has failed or was
// interrupted, and returns which in the Result. It reads the stream and returns
// the whole answer. After the stream's retention it queries the workflow, which
// has only the beginning of a long answer: Result.Truncated reports that. When it
// returns, the session's state has that end too, see AwaitState. The error
// concerns the waiting only.
func (h *Handle) Wait(ctx context.Context, r Receipt) (Result, error) {
	return h.Watch(ctx, r, func(event.Event) {})
}

// Watch is like Wait, and calls seen with every event up to the end, including
// those before the message's turn.
func (h *Handle) Watch(ctx context.Context, r Receipt, seen func(event.Event)) (Result, error) {
	for after := r.AfterSeq; ; {
		for ev, err := range h.Events(ctx, after, Follow) {
			if errors.Is(err, stream.ErrPurged) {
				return h.pollResult(ctx, r)
			}
			if err != nil {
				return Result{}, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
			}
			if res, ended := ResultOf(ev, r.MessageID); ended {
				h.AwaitState(ctx, res.ExecutionID)
				return h.whole(ctx, r.AfterSeq, res)
			}
			seen(ev)
			after = ev.Context.Seq
		}
		// An operator's reset reopens a closed session.
		if err := h.live(ctx); err != nil {
			return Result{}, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
		}
	}
}

// whole returns res with the whole text of a truncated response, if the stream
// still has it.
func (h *Handle) whole(ctx context.Context, after uint64, res Result) (Result, error) {
	if res.Result == nil || !res.Result.Truncated {
		return res, nil
	}
	text, err := h.textOf(ctx, res.Result.ResponseBlockID, after, res.Result.LastSeq)
	if errors.Is(err, stream.ErrPurged) {
		return res, nil
	}
	if err != nil {
		return res, fmt.Errorf("read the answer to message %s: %w", res.MessageID, err)
	}
	// A message that joined a running turn may have missed the text's beginning.
	if begins := strings.TrimSuffix(res.Result.Response, "…"); len(text) > len(begins) && strings.HasPrefix(text, begins) {
		r := *res.Result
		r.Response, r.Truncated = text, false
		res.Result = &r
	}
	return res, nil
}

// textOf reads the text of a block of the main conversation from the events with
// numbers above after, up to last; "" for a block that is not among them.
func (h *Handle) textOf(ctx context.Context, id string, after, last uint64) (string, error) {
	var b reducer.Builder
	for ev, err := range h.Events(ctx, after, false) {
		if err != nil {
			return "", err
		}
		if ev.Context.Conversation() == event.Main && aboutBlock(ev, id) {
			b.Add(ev)
		}
		if ev.Context.Seq >= last {
			break
		}
	}
	for _, block := range b.State().Blocks {
		if block.ID == id && block.Content != nil {
			return *block.Content, nil
		}
	}
	return "", nil
}

func aboutBlock(ev event.Event, id string) bool {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return p.Block.ID == id
	case event.BlockDelta:
		return p.BlockID == id
	}
	return false
}

// resultEvery is how often the workflow is queried for a result that no event
// will have.
const resultEvery = time.Second

// pollResult asks the workflow for a message's result until there is one: the
// stream may have lost the beginning of an execution that is still running.
func (h *Handle) pollResult(ctx context.Context, r Receipt) (Result, error) {
	for {
		res, err := h.Result(ctx, r.ExecutionID)
		if !errors.Is(err, ErrBusy) {
			return res, err
		}
		if err := sleep(ctx, resultEvery); err != nil {
			return Result{}, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
		}
	}
}

// ResultOf returns the end of a message's execution that an event reports, if it
// does.
func ResultOf(ev event.Event, messageID string) (Result, bool) {
	q, out, ended := endOf(ev)
	if !ended || !slices.Contains(q.MessageIDs, messageID) {
		return Result{}, false
	}
	return resultOf(q, messageID, out), true
}

func resultOf(q event.Query, messageID string, out Outcome) Result {
	res := Result{ExecutionID: q.ExecutionID, MessageID: messageID, Outcome: out, Result: q.Result, Error: q.Error, Reason: q.Reason}
	if len(q.MessageIDs) > 1 {
		res.MessageIDs = q.MessageIDs
	}
	return res
}

// Ends returns the event for an execution that ended without an answer; ResultOf
// reads it back.
func (r Result) Ends() event.Payload {
	q := event.Query{ExecutionID: r.ExecutionID, MessageIDs: []string{r.MessageID}, Error: r.Error, Reason: r.Reason}
	if r.Outcome == Failed {
		return event.QueryFailed{Query: q}
	}
	return event.QueryInterrupted{Query: q}
}

// endOf returns the execution that an event ends, and its outcome.
func endOf(ev event.Event) (q event.Query, how Outcome, ended bool) {
	switch p := ev.Payload.(type) {
	case event.QueryCompleted:
		return p.Query, Completed, true
	case event.QueryFailed:
		return p.Query, Failed, true
	case event.QueryInterrupted:
		return p.Query, Interrupted, true
	}
	return event.Query{}, "", false
}
