package stream

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced means that the log has seen a higher fence: another attempt or
	// epoch took over. The writer must stop for good; retrying can't help.
	ErrFenced = errors.New("fenced off by a higher epoch or attempt")
	// ErrPurged means that retention or a delete removed the requested events. The
	// archive may still have them. It is returned as a [*GapError].
	ErrPurged = errors.New("events are past the stream's retention")
	// ErrGap means that the next event is not where it must be: the log has a hole,
	// or it ends before the number that the reader has read up to. It is returned as
	// a [*GapError].
	ErrGap = errors.New("gap in the event log")
	// ErrNotFound means that the log has nothing of the session.
	ErrNotFound = errors.New("no events of the session in the stream")
	// ErrEvent means that an event can't be encoded; nothing was appended, and
	// appending it again can't help.
	ErrEvent = errors.New("event can't be encoded")
	// ErrCorrupt means that a message in the stream was not written by this package.
	ErrCorrupt = errors.New("malformed batch in the stream")
	// ErrClosed means that the batcher was closed.
	ErrClosed = errors.New("closed")
)

// GapError has the expected event and the one found. It matches [ErrPurged] if
// the expected events are older than what the stream holds, else [ErrGap].
type GapError struct {
	SessionID string
	// Want is the number of the expected event.
	Want uint64
	// Have is the number of the event found instead, or 0 if the log ends before
	// Want.
	Have   uint64
	Purged bool
}

// Error returns a text with the session and both numbers.
func (e *GapError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("stream: session %s: %v: event %d is wanted next, but the log ends before it", e.SessionID, e.Unwrap(), e.Want)
	}
	return fmt.Sprintf("stream: session %s: %v: event %d is wanted next, but event %d follows", e.SessionID, e.Unwrap(), e.Want, e.Have)
}

// Unwrap returns [ErrPurged] or [ErrGap].
func (e *GapError) Unwrap() error {
	if e.Purged {
		return ErrPurged
	}
	return ErrGap
}

// UnreachableError means that the stream can't be used; its hint is what to do.
type UnreachableError struct {
	// Addr is the server's address.
	Addr string
	// Hint is one sentence for the person who runs the program.
	Hint string
	Err  error
}

// Error returns one line without the hint.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("stream: NATS at %s is not usable: %v", e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }
