package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// subscriber follows a session from its first event to its close, and disconnects and
// reconnects in between, as subscribers do.
type subscriber struct {
	client *session.Client
	id     string
	rng    *rand.Rand
	// heardOne is called for every event.
	heardOne func(event.Event)
	// mayLose reports whether events may be deleted before they were read, as when the
	// stream was deleted.
	mayLose func() bool

	mu sync.Mutex
	// changed is closed and replaced at every event.
	changed chan struct{}
	heard   []Heard
	// announced are the sequence numbers at which, by an error, the events continue.
	announced []uint64
	closed    bool
	err       error
}

func subscribe(ctx context.Context, client *session.Client, id string, rng *rand.Rand, heardOne func(event.Event), mayLose func() bool) *subscriber {
	s := &subscriber{client: client, id: id, rng: rng, heardOne: heardOne, mayLose: mayLose, changed: make(chan struct{})}
	go s.run(ctx)
	return s
}

func (s *subscriber) run(ctx context.Context) {
	var last uint64
	for ctx.Err() == nil && !s.once(ctx, &last) {
		wait(ctx, 50*time.Millisecond)
	}
}

// once follows until it disconnects by itself, and reports whether that is the end.
func (s *subscriber) once(ctx context.Context, last *uint64) (over bool) {
	left := 40 + s.rng.IntN(400)
	for ev, err := range s.client.Events(ctx, s.id, *last, session.Follow) {
		if err != nil {
			if gap, ok := errors.AsType[*stream.GapError](err); ok && gap.Have > gap.Want && s.mayLose() {
				s.announce(gap.Have)
				*last = gap.Have - 1
				return false
			}
			if broken := errors.Is(err, stream.ErrGap) || errors.Is(err, stream.ErrPurged); broken {
				s.fail(err)
				return true
			}
			return false
		}
		*last = ev.Context.Seq
		if s.add(ev) {
			return true
		}
		if left--; left == 0 {
			return false
		}
	}
	return false
}

func (s *subscriber) add(ev event.Event) (closed bool) {
	s.mu.Lock()
	s.heard = append(s.heard, Heard{ev, time.Now()})
	if _, ok := ev.Payload.(event.SessionClosed); ok {
		s.closed = true
	}
	close(s.changed)
	s.changed = make(chan struct{})
	closed = s.closed
	s.mu.Unlock()
	s.heardOne(ev)
	return closed
}

func (s *subscriber) announce(next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = append(s.announced, next)
}

func (s *subscriber) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.changed)
	s.changed = make(chan struct{})
}

// all returns the events received so far, and the sequence numbers at which, by an
// error, they continue.
func (s *subscriber) all() (heard []Heard, announced []uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard), slices.Clone(s.announced), s.err
}

// until waits for an event that satisfies f, the received ones included. It reports
// whether there was one before the context ended.
func (s *subscriber) until(ctx context.Context, f func(Heard) bool) bool {
	for next := 0; ; {
		s.mu.Lock()
		fresh, changed, err := s.heard[next:], s.changed, s.err
		next = len(s.heard)
		s.mu.Unlock()
		for _, h := range fresh {
			if f(h) {
				return true
			}
		}
		if err != nil {
			return false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
