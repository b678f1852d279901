package runner

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// window is how many bytes of records may be on their way to a client that has
// not consumed them yet.
const window = 4 << 20

// EndWithRunner is the line by which a spool records that an agent was killed
// with its runner, which could not record it any more. The next runner writes it,
// before it starts an agent.
const EndWithRunner = "signal killed (with its runner)"

// Delivery is one record of the spool and its position.
type Delivery struct {
	// Offset is the beginning of the record, Next that of the following one: the
	// position to continue from after this record.
	Offset, Next int64
	Record       traffic.Record
}

// Records returns every record from the offset on, then live ones as the agent
// writes them, and ends without error after the last record of an agent that has
// exited. Errors end it: [ErrOffset], [ErrTrimmed], [ErrEpoch] (a higher epoch
// took over), ctx's, or [ErrClosed]. [ErrDamaged] alone does not: it reports a
// loss between the delivery's offsets, and the later records follow. Several may
// run at once.
func (c *Conn) Records(ctx context.Context, from int64) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		s := &stream{more: make(chan struct{}, 1)}
		id, err := c.register(func(id uint64) { c.streams[id] = s })
		if err == nil {
			defer c.forget(id)
			err = c.send(id, wire.OpRecords, wire.Records{From: from, Credit: window})
		}
		if err == nil {
			err = c.follow(ctx, id, s, yield)
		}
		if err != nil {
			yield(Delivery{}, wrap(fmt.Sprintf("records from %d", from), err))
		}
	}
}

// follow yields until the stream ends or the consumer stops.
func (c *Conn) follow(ctx context.Context, id uint64, s *stream, yield func(Delivery, error) bool) error {
	var taken int64
	for {
		r, err := c.next(ctx, s)
		if err != nil {
			c.cancel(id)
			return err
		}
		if r.Error != nil || r.End {
			return DecodeError(r.Error)
		}
		if !yield(decodeDelivery(r)) {
			c.cancel(id)
			return nil
		}
		if taken += r.Next - r.At; taken >= window/2 {
			if err := c.send(0, wire.OpCredit, wire.Credit{Stream: id, Bytes: taken}); err != nil {
				return err
			}
			taken = 0
		}
	}
}

// cancel is a courtesy: a stream that is no longer read would only use up its
// credit.
func (c *Conn) cancel(id uint64) {
	if c.cause() == nil {
		_ = c.send(0, wire.OpCancel, wire.Cancel{Stream: id})
	}
}

func (c *Conn) next(ctx context.Context, s *stream) (wire.Reply, error) {
	for {
		if r, ok := s.pop(); ok {
			return r, nil
		}
		if err := c.cause(); err != nil {
			return wire.Reply{}, err
		}
		select {
		case <-ctx.Done():
			return wire.Reply{}, ctx.Err()
		case <-s.more:
		}
	}
}

func decodeDelivery(r wire.Reply) (Delivery, error) {
	rec, err := wire.DecodeSummed(r.Rec)
	if err != nil {
		err = wrap(fmt.Sprintf("spool at byte %d to %d", r.At, r.Next), err)
	}
	return Delivery{Offset: r.At, Next: r.Next, Record: rec}, err
}

// stream is the queue between the connection's reader and one consumer; the
// credit bounds it.
type stream struct {
	more chan struct{}

	mu    sync.Mutex
	queue []wire.Reply
	head  int
}

func (s *stream) push(r wire.Reply) {
	s.mu.Lock()
	s.queue = append(s.queue, r)
	s.mu.Unlock()
	s.wake()
}

func (s *stream) pop() (wire.Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
		return wire.Reply{}, false
	}
	r := s.queue[s.head]
	s.queue[s.head] = wire.Reply{}
	s.head++
	return r, true
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}
