package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// takeStream takes the stream's fence, once.
func (a *attempt) takeStream(ctx context.Context) (err error) {
	if a.writer != nil {
		return nil
	}
	a.writer, err = a.host.o.Stream.Writer(ctx, a.in.Agent.SessionID, a.fence, stream.WriterOptions{
		LastSeq: a.in.LastSeq, Fresh: true, Confirm: a.confirmEpoch,
	})
	if err != nil {
		return err
	}
	if had := a.writer.Tail().Position; had.Epoch == a.fence.Epoch {
		a.machine.Had = &turn.Place{Offset: had.Offset, Index: had.Index}
	}
	a.out = a.writer.Batcher(ctx, stream.BatcherOptions{MaxBytes: a.host.o.Memory.queue(), Stored: a.stored.add})
	return nil
}

// storedEvents are the server's events that an attempt has stored in the stream, which may be deleted
// before they are read. Safe for concurrent use.
type storedEvents struct {
	mu     sync.Mutex
	events []event.Event
}

// add adds events that have numbers one after another.
func (s *storedEvents) add(stored []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []event.Event
	for _, ev := range stored {
		if ev.Context.Source == event.SourceServer {
			own = append(own, ev)
		}
	}
	if len(own) > 0 {
		s.events = slices.Insert(s.events, s.from(own[0].Context.Seq), own...)
	}
}

// between returns those that are numbered after one number and before another.
func (s *storedEvents) between(after, before uint64) []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.from(after + 1)
	return slices.Clone(s.events[first:max(first, s.from(before))])
}

// from returns the index of the first event with a number or a higher one. It needs the lock.
func (s *storedEvents) from(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s.events, seq, func(ev event.Event, seq uint64) int { return cmp.Compare(ev.Context.Seq, seq) })
	return i
}

// confirmEpoch returns [stream.ErrFenced] if the turn's epoch is not the session's newest
// in the archive, which has it when the stream does not.
func (a *attempt) confirmEpoch(ctx context.Context) error {
	newest, err := a.host.o.Archive.Epoch(ctx, a.in.Agent.SessionID)
	if err == nil && newest != a.fence.Epoch {
		err = fmt.Errorf("%w: the archive is at epoch %d, this turn at %d", stream.ErrFenced, newest, a.fence.Epoch)
	}
	return err
}
