package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// draft is an append before its place is known; it is numbered again at each
// place that it tries.
type draft struct {
	session string
	fence   Fence
	// encode numbers and encodes the events from first on.
	encode func(first uint64) (batch, error)
	// look, if set, is called before each try at a new place; done ends the append
	// with nothing sent.
	look func(ctx context.Context, c cursor) (keys []string, done bool, err error)
	// renew, if set, is called when the log no longer has the fence that was taken:
	// the stream was deleted or emptied. It returns the place behind what it
	// appended.
	renew func(ctx context.Context, c cursor) (cursor, error)
}

// errConflict means that another writer's message is at this place.
var errConflict = errors.New("another writer was faster")

// errPending means that the server refuses the place as taken, and it is not
// known yet by whom.
var errPending = errors.New("the place is being taken")

// commit appends a draft behind c, or behind what others appended meanwhile, and
// returns the place after it. It retries until the outcome is known; if ctx ends
// it earlier, the outcome may be unknown.
func (l *Log) commit(ctx context.Context, c cursor, d draft) (cursor, error) {
	for {
		next, err := l.commitAt(ctx, c, d)
		if !errors.Is(err, errConflict) {
			return next, err
		}
		err = l.insist(ctx, func(ctx context.Context) (err error) {
			c, err = l.lastFrom(ctx, d.session, c)
			return err
		})
		if err == nil && d.renew != nil && c.forgot(d.fence) {
			c, err = d.renew(ctx, c)
		}
		if err != nil {
			return c, err
		}
	}
}

// allowed reports whether a writer may append to a log that has seen a fence.
func allowed(seen, own Fence) error {
	if own.Attempt == 0 {
		seen.Attempt = 0
	}
	if seen.Compare(own) > 0 {
		return fmt.Errorf("%w: the log is at %v, this writer at %v", ErrFenced, seen, own)
	}
	return nil
}

// commitAt appends a draft directly behind c.
func (l *Log) commitAt(ctx context.Context, c cursor, d draft) (cursor, error) {
	like := message{fence: c.fence, pos: c.pos, keyed: c.keyed, batch: l.batchID()}
	if d.look != nil {
		keys, done, err := d.look(ctx, c)
		if done || err != nil {
			return c, err
		}
		like.keys = keys
	}
	if err := allowed(c.fence, d.fence); err != nil {
		return c, err
	}
	if c.fence.Compare(d.fence) < 0 {
		like.fence = d.fence
	}
	b, err := d.encode(c.last + 1)
	if err != nil {
		return c, err
	}
	for _, m := range b.messages(like, l.limit) {
		m.at, err = l.put(ctx, l.subject(d.session), c.at, m)
		if err != nil {
			return c, err
		}
		c = behind(m)
	}
	return c, nil
}

// put appends one message behind number after of its subject, and returns its
// own number.
func (l *Log) put(ctx context.Context, subject string, after uint64, m message) (at uint64, err error) {
	err = l.insist(ctx, func(ctx context.Context) error {
		ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: m.header(), Data: m.data},
			jetstream.WithExpectStream(l.opts.Name), jetstream.WithExpectLastSequencePerSubject(after), jetstream.WithRetryAttempts(0))
		if err == nil {
			at = ack.Sequence
			return nil
		}
		wrong, emptied := misplaced(err)
		if !wrong {
			return err
		}
		if emptied {
			return errConflict
		}
		at, err = l.ownAt(ctx, subject, after, m)
		return err
	})
	return at, err
}

const (
	codeWrongLast = 10071
	// codeWrongLastSoon is a cluster's error for a place that a message still in
	// flight may take.
	codeWrongLastSoon = 10164
)

// misplaced reports whether the server refused a message for its place; emptied,
// whether it has no message of the subject at all, by retention or a purge.
func misplaced(err error) (wrong, emptied bool) {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok || api.ErrorCode != codeWrongLast && api.ErrorCode != codeWrongLastSoon {
		return false, false
	}
	return true, strings.HasSuffix(api.Description, "sequence: 0")
}

// ownAt finds out who took the place behind number after: an earlier try of this
// append whose answer was lost, or another writer. The server accepts one message
// for a place, so the first one behind it shows which.
func (l *Log) ownAt(ctx context.Context, subject string, after uint64, m message) (uint64, error) {
	first, err := l.getAt(ctx, subject, after+1)
	switch {
	case errors.Is(err, ErrCorrupt):
		return 0, errConflict
	case errors.Is(err, ErrNotFound):
		// A replica that is behind: only the message itself decides.
		return 0, errPending
	case err != nil:
		return 0, err
	case first.batch == m.batch && first.part == m.part:
		return first.at, nil
	}
	return 0, errConflict
}
