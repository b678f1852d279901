package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Emission is an append beside the agent's writer: the workflow's server events,
// say. Key and Events are required.
type Emission struct {
	// Fence is the right to write. With Attempt 0 it is for the whole epoch: it is
	// refused only by a higher epoch, and does not fence the attempt that writes.
	Fence Fence
	// Key names the emission within the session: one key is appended once, however
	// often it is tried, as long as it is among the session's last 64 keys and the
	// log holds them.
	Key string
	// LastSeq is as in [WriterOptions].
	LastSeq uint64
	// Since is when this emission, or an earlier one, was first tried; it may have been
	// appended to a stream that was deleted then, although LastSeq is 0. Default: this is
	// the first try.
	Since  time.Time
	Events []event.Event
	// Stored, if set, is called with the events, numbered, when this call has stored them,
	// and not for a known key.
	Stored func(events []event.Event)
}

// keysKept is how many keys a session's log keeps.
const keysKept = 64

// Emit appends events once, all or none, and returns the number of the log's last
// event, which is one of theirs unless the key was known. It keeps the log's
// position. It fails with [ErrFenced] when the log has seen a higher fence, and
// may be tried again after any other error but [ErrEvent].
func (l *Log) Emit(ctx context.Context, sessionID string, e Emission) (last uint64, err error) {
	if err := checkID(sessionID); err != nil {
		return 0, err
	}
	if e.Key == "" || len(e.Events) == 0 {
		return 0, fmt.Errorf("stream: session %s: emit: Key and Events are required", sessionID)
	}
	if err := encodable(e.Events); err != nil {
		return 0, fmt.Errorf("stream: session %s: emit %s: %w", sessionID, e.Key, err)
	}
	began := time.Now()
	c := cursor{known: e.LastSeq, since: e.Since}
	stored := false
	err = l.insist(ctx, func(ctx context.Context) (err error) {
		c, err = l.lastFrom(ctx, sessionID, c)
		return err
	})
	if c.since.IsZero() {
		c.since = began
	}
	if err == nil {
		c, err = l.commit(ctx, c, l.emission(sessionID, e, &stored))
	}
	if err != nil {
		return 0, fmt.Errorf("stream: session %s: emit %s: %w", sessionID, e.Key, err)
	}
	if stored && e.Stored != nil {
		e.Stored(numbered([]item{{events: e.Events}}, c.last))
	}
	return c.last, nil
}

// emission is appended, and not known, if stored is true in the end.
func (l *Log) emission(sessionID string, e Emission, stored *bool) draft {
	key := keyToken(e.Key)
	return draft{
		session: sessionID,
		fence:   e.Fence,
		encode: func(first uint64) (batch, error) {
			return encodeBatch(sessionID, first, []item{{events: e.Events}}, l.limit)
		},
		look: func(ctx context.Context, c cursor) ([]string, bool, error) {
			keys, err := l.keys(ctx, sessionID, c)
			known := slices.Contains(keys, key)
			if *stored = err == nil && !known; known {
				return nil, true, nil
			}
			keys = append(keys, key)
			return keys[max(0, len(keys)-keysKept):], false, err
		},
	}
}

// keys returns those of the last emissions before c. Every message names the last
// message with keys, and that one has them all.
func (l *Log) keys(ctx context.Context, sessionID string, c cursor) (keys []string, err error) {
	if c.keyed == 0 {
		return nil, nil
	}
	err = l.insist(ctx, func(ctx context.Context) error {
		m, err := l.getNext(ctx, l.subject(sessionID), c.keyed)
		if errors.Is(err, ErrNotFound) {
			return nil // the log has lost it, and c's place with it
		}
		if err != nil {
			return err
		}
		if m.at == c.keyed {
			keys = m.keys
		}
		return nil
	})
	return keys, err
}

// keyToken returns a form of the key that is short and safe in a header.
func keyToken(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:9])
}

// encodable returns an error for an event that could never be appended, before
// anything is sent for it.
func encodable(events []event.Event) error {
	for i, e := range events {
		if e.Payload == nil {
			return fmt.Errorf("%w: event %d of %d has no payload", ErrEvent, i+1, len(events))
		}
	}
	return nil
}
