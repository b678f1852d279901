package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Fence is the right to write to a session: an epoch, and an attempt within
// it. Fences are ordered by epoch, then attempt.
type Fence struct {
	Epoch uint64
	// Attempt must grow with every attempt of every turn of an epoch. In [Log.Emit],
	// 0 means the epoch as a whole.
	Attempt int
}

// Compare returns -1, 0 or 1 if f is lower than, equal to or higher than g.
func (f Fence) Compare(g Fence) int {
	return cmp.Or(cmp.Compare(f.Epoch, g.Epoch), cmp.Compare(f.Attempt, g.Attempt))
}

// String returns epoch.attempt.
func (f Fence) String() string { return fmt.Sprintf("%d.%d", f.Epoch, f.Attempt) }

// Position is a place in an agent's spool: the record that begins at Offset bytes
// in the spool of Epoch, and the event with that Index among the record's events.
// The zero Position is before everything.
type Position struct {
	Epoch  uint64
	Offset int64
	Index  int
}

// Compare returns -1, 0 or 1 if p is before, at or behind q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Index, q.Index))
}

// String returns epoch.offset.index.
func (p Position) String() string { return fmt.Sprintf("%d.%d.%d", p.Epoch, p.Offset, p.Index) }

// Tail is the state of a session's log.
type Tail struct {
	// LastSeq is the number of the last event, 0 for none.
	LastSeq uint64
	// Fence is the highest one that the log has seen.
	Fence Fence
	// Position is that of the last event that came from an agent's spool.
	Position Position
}

// Tail returns the state of a session's log. It returns [ErrNotFound], with the
// zero Tail, if the log has nothing: the session is new, or all of its events are
// past retention.
func (l *Log) Tail(ctx context.Context, sessionID string) (Tail, error) {
	if err := checkID(sessionID); err != nil {
		return Tail{}, err
	}
	var c cursor
	err := l.patiently(ctx, func(ctx context.Context) (err error) {
		c, err = l.last(ctx, sessionID)
		return err
	})
	if err != nil {
		return Tail{}, fmt.Errorf("stream: session %s: read the tail: %w", sessionID, err)
	}
	return c.tail(), nil
}

// cursor is a place behind a message, with what an append there needs.
type cursor struct {
	// at is the message's number in the stream, 0 if there is none.
	at uint64
	// last is the number of the last whole event, or, if the log has no message, the
	// number behind which events continue. known is the highest number that is known
	// to be used: those between it and last may be unused.
	last, known uint64
	// since, where no number is known, is when the first one may have been used; zero for
	// never.
	since time.Time
	// torn means that the message is a part that others should follow.
	torn  bool
	fence Fence
	pos   Position
	// keyed is the stream number of the last message with emission keys.
	keyed uint64
}

func (c cursor) tail() Tail { return Tail{LastSeq: c.last, Fence: c.fence, Position: c.pos} }

// forgot reports whether the log no longer has any message of a fence that was
// taken.
func (c cursor) forgot(f Fence) bool { return c.at == 0 || c.fence.Compare(f) < 0 }

// behind returns the cursor after message m.
func behind(m message) cursor {
	c := cursor{at: m.at, last: m.last, known: m.last, fence: m.fence, pos: m.pos, keyed: m.keyed}
	if m.part < m.parts {
		c.last, c.known, c.torn = m.first-1, m.first-1, true
	}
	if len(m.keys) > 0 {
		c.keyed = m.at
	}
	return c
}

// last reads the cursor behind the session's last message; with [ErrNotFound] it
// is the zero cursor.
func (l *Log) last(ctx context.Context, sessionID string) (cursor, error) {
	m, err := l.getLast(ctx, l.subject(sessionID))
	if err != nil {
		return cursor{}, err
	}
	return behind(m), nil
}

// deleted reports whether events that are missing behind c were deleted, or may have been,
// with their stream: none can have expired, or if there were any is unknown, and the
// stream is younger than they would be.
func (l *Log) deleted(ctx context.Context, c cursor) (bool, error) {
	if c.known == 0 && c.since.IsZero() {
		return false, nil
	}
	s, err := l.js.Stream(ctx, l.opts.Name)
	if err != nil {
		return false, err
	}
	info := s.CachedInfo()
	if c.known == 0 {
		return info.Created.After(c.since), nil
	}
	return info.Config.MaxAge == 0 || time.Since(info.Created) < info.Config.MaxAge, nil
}

// lastFrom returns the cursor behind the session's last message. If the log has
// none, the cursor has no place, and numbers continue behind c.known if retention
// removed the messages. If the stream was deleted or purged, another writer may
// have used numbers behind c.known: they then continue at the time in
// microseconds, as the stream's own do, so that none is used twice. Readers get
// [ErrPurged] for earlier ones.
func (l *Log) lastFrom(ctx context.Context, sessionID string, c cursor) (cursor, error) {
	now, err := l.last(ctx, sessionID)
	switch {
	case err == nil:
		now.known = max(now.known, c.known)
		now.last = max(now.last, now.known)
		return now, nil
	case !errors.Is(err, ErrNotFound):
		return c, err // to be tried again with what c knows
	}
	none := cursor{last: c.known, known: c.known, since: c.since, fence: c.fence, pos: c.pos}
	deleted, err := l.deleted(ctx, c)
	if deleted {
		none.last = max(c.known, uint64(time.Now().UnixMicro()))
	}
	return none, err
}
