package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// WriterOptions is what a writer may know beforehand. The zero value is ready to
// use.
type WriterOptions struct {
	// LastSeq is a number known to be used, from workflow state or the archive:
	// numbers continue behind it even if retention has emptied the stream, and far
	// behind it if the stream was deleted. Default 0.
	LastSeq uint64
	// Fresh refuses a fence that the log has already seen. Default: an equal fence
	// may open again.
	Fresh bool
	// Message is the text of the fence event; default none.
	Message string
	// Confirm, if set, is called before the fence is taken again in a log that has
	// lost it, and with it every higher one. [ErrFenced] ends the writer; any other
	// error counts as an outage, and Confirm is called again.
	Confirm func(ctx context.Context) error
}

// Writer appends the events of one attempt to one session. It is safe for
// concurrent use; appends are made one after the other. It needs no Close.
type Writer struct {
	log     *Log
	session string
	fence   Fence
	confirm func(ctx context.Context) error

	// turn is held by the running append; a channel, so that a context can end the
	// wait.
	turn chan struct{}
	// mu guards what follows; changed only by the holder of turn.
	mu  sync.Mutex
	c   cursor
	err error
}

// Writer appends the fence event, waits until the server has stored it, and
// returns the session's writer; nothing of a lower fence can be appended from
// then on. It fails with [ErrFenced] when the log has seen a higher fence. An
// equal fence may open again.
func (l *Log) Writer(ctx context.Context, sessionID string, f Fence, o WriterOptions) (*Writer, error) {
	if err := checkID(sessionID); err != nil {
		return nil, err
	}
	if f.Epoch < 1 || f.Attempt < 1 {
		return nil, fmt.Errorf("stream: session %s: fence %v: epoch and attempt begin at 1", sessionID, f)
	}
	w := &Writer{log: l, session: sessionID, fence: f, confirm: o.Confirm, turn: make(chan struct{}, 1)}
	err := l.insist(ctx, func(ctx context.Context) (err error) {
		w.c, err = l.lastFrom(ctx, sessionID, cursor{known: o.LastSeq})
		return err
	})
	if err == nil && o.Fresh && w.c.fence.Compare(f) >= 0 {
		err = fmt.Errorf("%w: the log is at %v already", ErrFenced, w.c.fence)
	}
	if err == nil {
		_, _, err = w.append(ctx, []item{{events: w.serverEvents(w.status(o.Message))}}, l.limit)
	}
	if err != nil {
		return nil, fmt.Errorf("stream: session %s: fence %v: %w", sessionID, f, err)
	}
	return w, nil
}

// Fence returns the writer's fence.
func (w *Writer) Fence() Fence { return w.fence }

// Tail returns the state of the log as far as this writer knows: right after
// [Log.Writer], exactly; later, up to its own last append. Events at or before
// its Position are in the log.
func (w *Writer) Tail() Tail {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.c.tail()
}

// Append numbers the events, appends them all or not at all, and returns the
// number of the last one once the server has stored them. pos is the position of
// the last event; zero for events that are not from a spool. While the stream
// does not answer, Append retries until ctx ends.
//
// After [ErrEvent] the writer can still be used. Any other error is final for
// this writer, and only the log shows whether the events were stored: open
// another writer, if the fence still holds, and read its Tail.
func (w *Writer) Append(ctx context.Context, events []event.Event, pos Position) (last uint64, err error) {
	if len(events) == 0 {
		return w.Tail().LastSeq, nil
	}
	if err := encodable(events); err != nil {
		return 0, fmt.Errorf("stream: session %s: append: %w", w.session, err)
	}
	_, last, err = w.append(ctx, []item{{events: events, pos: pos}}, w.log.limit)
	if err != nil {
		return 0, fmt.Errorf("stream: session %s: append: %w", w.session, err)
	}
	return last, nil
}

// append appends as many items as fit into limit bytes, at least one, and returns
// how many, and the number of their last event.
func (w *Writer) append(ctx context.Context, items []item, limit int) (taken int, last uint64, err error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	if w.err != nil {
		return 0, 0, w.err
	}
	d := w.draft(items, limit, &taken)
	if w.c.fence == w.fence {
		d.renew = w.renew
	}
	c, err := w.log.commit(ctx, w.c, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && !errors.Is(err, ErrEvent) {
		// c may be where the append was tried in vain: behind a number that no event has.
		w.err = err
		return 0, 0, err
	}
	w.c = c
	return taken, c.last, err
}

// draft returns the draft of items; taken is set to how many of them fit.
func (w *Writer) draft(items []item, limit int, taken *int) draft {
	return draft{session: w.session, fence: w.fence, encode: func(first uint64) (batch, error) {
		b, err := encodeBatch(w.session, first, items, limit)
		*taken = b.items
		return b, err
	}}
}

// renew takes the fence again in a log that has lost it, and informs subscribers.
// The position continues where this writer was, since it alone writes events from
// a spool.
func (w *Writer) renew(ctx context.Context, c cursor) (cursor, error) {
	const why = "the stream was deleted or emptied in the middle of the turn"
	if err := w.confirmed(ctx); err != nil {
		return c, err
	}
	w.log.opts.Logger.WarnContext(ctx, why+"; the turn continues", "session", w.session, "numbers continue at", c.last+1)
	lost := event.Log{Level: "warn", Message: why + "; the turn continues, and the archive keeps the conversation"}
	pos := c.pos
	if pos.Compare(w.c.pos) < 0 {
		pos = w.c.pos
	}
	var taken int
	return w.log.commit(ctx, c, w.draft([]item{{events: w.serverEvents(w.status(why), lost), pos: pos}}, w.log.limit, &taken))
}

// confirmed calls Confirm until it answers.
func (w *Writer) confirmed(ctx context.Context) error {
	for try := 1; w.confirm != nil; try++ {
		err := w.confirm(ctx)
		if err == nil || errors.Is(err, ErrFenced) {
			return err
		}
		w.log.opts.Logger.WarnContext(ctx, "a deleted stream's fence is not taken again yet", "session", w.session, "error", err)
		if err := pause(ctx, backoff(try)); err != nil {
			return err
		}
	}
	return nil
}

// status returns the visible form of the fence.
func (w *Writer) status(message string) event.Status {
	return event.Status{Epoch: w.fence.Epoch, Attempt: w.fence.Attempt, Message: message}
}

func (w *Writer) serverEvents(payloads ...event.Payload) (events []event.Event) {
	for _, p := range payloads {
		events = append(events, event.Event{
			Payload: p,
			Context: event.Context{ConversationID: event.Main, Source: event.SourceServer, Timestamp: time.Now().UTC()},
		})
	}
	return events
}
