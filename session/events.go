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
// session:closed once the session is closed, at once if that is event N. An error is the
// last element; a gap is an error.
func (h *Handle) Events(ctx context.Context, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return h.c.Events(ctx, h.id, after, follow)
}

// Events is Handle.Events for an id. It sends requests to Temporal only at the end behind
// session:closed, and about a session of which the stream has nothing, and does not end while
// Temporal does not answer.
func (c *Client) Events(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if c.o.Stream == nil {
			yield(event.Event{}, fmt.Errorf("events of session %s: no stream is configured", id))
			return
		}
		if follow && (c.endsAt(ctx, id, after) || c.isOver(ctx, id)) {
			return
		}
		for ev, err := range c.o.Stream.Read(ctx, id, after, stream.ReadOptions{Follow: follow}) {
			if !yield(ev, err) || err != nil {
				return
			}
			if _, closed := ev.Payload.(event.SessionClosed); closed && follow && c.endsAt(ctx, id, ev.Context.Seq) {
				return
			}
		}
	}
}

// left yields what the stream still has of Events.
func (c *Client) left(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return stream.Left(after, func(after uint64) iter.Seq2[event.Event, error] { return c.Events(ctx, id, after, follow) })
}

// endsAt reports whether event seq is the last one and closed the session. For a session
// that is open in Temporal it waits for what follows: its workflow ends just behind
// that event, or the session was reopened and has written nothing yet.
func (c *Client) endsAt(ctx context.Context, id string, seq uint64) bool {
	for wait := statePoll; c.closedAt(ctx, id, seq); wait = min(2*wait, resultEvery) {
		known, err := c.lookup(ctx, id)
		if err == nil && !known.open || errors.Is(err, ErrNotFound) {
			return true
		}
		if sleep(ctx, wait) != nil {
			return false
		}
	}
	return false
}

// closedAt reports whether the stream ends with event seq, which is session:closed.
func (c *Client) closedAt(ctx context.Context, id string, seq uint64) bool {
	if seq == 0 {
		return false
	}
	tail, err := c.o.Stream.Tail(ctx, id)
	if errors.Is(err, stream.ErrNotFound) {
		return true // it was deleted since
	}
	if err != nil || tail.LastSeq != seq {
		return false
	}
	for ev := range c.o.Stream.Read(ctx, id, seq-1, stream.ReadOptions{}) {
		_, closed := ev.Payload.(event.SessionClosed)
		return closed
	}
	return false
}

// isOver reports whether a session is closed and all of its events are past retention. One that
// was terminated may still get its last events, from what cleans up after it.
func (c *Client) isOver(ctx context.Context, id string) bool {
	if !c.isPurged(ctx, id) {
		return false
	}
	known, err := c.lookup(ctx, id)
	// A closed session has all of its events: it may have had its first ones meanwhile.
	return err == nil && !known.open && !known.terminated && c.isPurged(ctx, id)
}

// isPurged reports whether the stream has nothing of a session: it is new, or all of its
// events are past retention.
func (c *Client) isPurged(ctx context.Context, id string) bool {
	_, err := c.o.Stream.Tail(ctx, id)
	return errors.Is(err, stream.ErrNotFound)
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
	if res, known, err := h.purgedResult(ctx, r); known {
		return res, err
	}
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

// purgedResult returns the result of an execution whose session has nothing left in the
// stream: an execution that has ended writes no more events. It is not known while the
// execution runs or waits, whose end will be in the stream.
func (h *Handle) purgedResult(ctx context.Context, r Receipt) (res Result, known bool, err error) {
	if h.c.o.Stream == nil || !h.c.isPurged(ctx, h.id) {
		return Result{}, false, nil
	}
	asked, cancel := context.WithTimeout(ctx, statePatience)
	defer cancel()
	res, err = h.Result(asked, r.ExecutionID)
	known = err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrClosed)
	// The stream has the end before the workflow does.
	if !known || !h.c.isPurged(ctx, h.id) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, true, fmt.Errorf("wait for message %s: %w", r.MessageID, err)
	}
	return res, true, nil
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
// numbers above after, up to last, that the stream still has; "" for a block that is not among
// them.
func (h *Handle) textOf(ctx context.Context, id string, after, last uint64) (string, error) {
	var b reducer.Builder
	for ev, err := range h.c.left(ctx, h.id, after, false) {
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

// FailureBlock returns the block that shows a failed execution in the conversation, where no
// agent was prompted.
func (r Result) FailureBlock() event.Payload {
	return event.ErrorBlock("sojourn-"+r.ExecutionID+"-failed", *r.Error)
}

// Ends returns the event for an execution that ended without an answer; ResultOf
// reads it back.
func (r Result) Ends() event.Payload { return r.ends(false) }

// EndsQueued is Ends for an execution that had not begun.
func (r Result) EndsQueued() event.Payload { return r.ends(true) }

func (r Result) ends(queued bool) event.Payload {
	q := event.Query{ExecutionID: r.ExecutionID, MessageIDs: []string{r.MessageID}, Error: r.Error, Reason: r.Reason, Queued: queued}
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
