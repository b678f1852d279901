package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/footprint"
)

// BatcherOptions bounds a batcher. The zero value is ready to use.
type BatcherOptions struct {
	// MaxBytes is about how much may be queued; default 8 MiB. Add blocks while there
	// is more.
	MaxBytes int
	// Stored, if set, is called with events that the server has stored, numbered, in
	// order, from one goroutine and before Flush returns: the stream may be deleted
	// before they are read.
	Stored func(events []event.Event)
}

// Batcher appends in the background: while one append awaits its answer, added
// events are collected, and sent as one batch. So a single event is sent at once,
// and a flood costs one round trip per batch. It is safe for concurrent use; the
// events of one caller stay in order.
type Batcher struct {
	w      *Writer
	max    int
	stored func([]event.Event)
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	queue []item
	// bytes is the weight of queue, and of what is being appended.
	bytes int
	// added and sent count items.
	added, sent uint64
	err         error
	// changed is closed and replaced whenever the sender has made progress.
	changed chan struct{}
	// wake wakes the sender if the queue was empty.
	wake chan struct{}
}

// Batcher starts a batcher, which ends with [Batcher.Close] or ctx. The writer
// may be used at the same time.
func (w *Writer) Batcher(ctx context.Context, o BatcherOptions) *Batcher {
	setDefault(&o.MaxBytes, 8<<20)
	ctx, cancel := context.WithCancel(ctx)
	b := &Batcher{
		w: w, max: o.MaxBytes, stored: o.Stored, cancel: cancel,
		done: make(chan struct{}), changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go b.run(ctx)
	return b
}

// Add queues events, as one item that is appended all or not at all; pos is the
// position of the last one, zero for events that are not from a spool. It blocks
// only while the queue is full, and the events must not change afterwards. Once
// an append has failed for good, every Add returns that error.
func (b *Batcher) Add(ctx context.Context, events []event.Event, pos Position) error {
	if len(events) == 0 {
		return nil
	}
	if err := encodable(events); err != nil {
		return fmt.Errorf("stream: session %s: add: %w", b.w.session, err)
	}
	weight := 0
	for _, e := range events {
		weight += footprint.Of(e)
	}
	// An empty queue accepts an item of any size.
	err := b.await(ctx, func() bool { return b.bytes == 0 || b.bytes+weight <= b.max }, func() {
		b.queue = append(b.queue, item{events: events, pos: pos, weight: weight})
		b.bytes += weight
		b.added++
	})
	if err != nil {
		return fmt.Errorf("stream: session %s: add: %w", b.w.session, err)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

// Flush waits until all events added before it are stored.
func (b *Batcher) Flush(ctx context.Context) error {
	b.mu.Lock()
	added := b.added
	b.mu.Unlock()
	err := b.await(ctx, func() bool { return b.sent >= added }, func() {})
	if err != nil {
		return fmt.Errorf("stream: session %s: flush: %w", b.w.session, err)
	}
	return nil
}

// Close stops the batcher and waits for its end; it may be called more than once.
// Events that were not flushed may or may not be in the log. It returns the error
// that ended the batcher earlier, if any.
func (b *Batcher) Close() error {
	b.cancel()
	<-b.done
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.err, ErrClosed) {
		return nil
	}
	return b.err
}

// await waits until ready returns true and then calls do, both with the lock
// held.
func (b *Batcher) await(ctx context.Context, ready func() bool, do func()) error {
	for {
		b.mu.Lock()
		if ready() && b.err == nil {
			do()
			b.mu.Unlock()
			return nil
		}
		err, changed := b.err, b.changed
		b.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run is the sender: the one goroutine of a batcher.
func (b *Batcher) run(ctx context.Context) {
	defer close(b.done)
	for {
		items := b.waiting()
		if len(items) == 0 {
			select {
			case <-b.wake:
				continue
			case <-ctx.Done():
				b.dequeue(0, ErrClosed)
				return
			}
		}
		taken, last, err := b.w.append(ctx, items, b.w.log.limit)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		if err == nil && b.stored != nil {
			b.stored(numbered(items[:taken], last))
		}
		b.dequeue(taken, err)
		if err != nil {
			return
		}
	}
}

// numbered returns the events of items whose last one has a number.
func numbered(items []item, last uint64) []event.Event {
	var all []event.Event
	for _, it := range items {
		all = append(all, it.events...)
	}
	for i := range all {
		all[i].Context.Seq = last - uint64(len(all)-1-i)
	}
	return all
}

func (b *Batcher) waiting() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue
}

// dequeue removes appended items from the queue and wakes the waiters.
func (b *Batcher) dequeue(taken int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		for _, it := range b.queue[:taken] {
			b.bytes -= it.weight
		}
		clear(b.queue[:taken])
		b.queue = b.queue[taken:]
		b.sent += uint64(taken)
	}
	b.err = err
	close(b.changed)
	b.changed = make(chan struct{})
}
