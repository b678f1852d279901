package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// recheck is how often an idle follower reads the stream itself. It bounds the
	// delay when a server died between storing and republishing.
	recheck = 5 * time.Second
	// liveBytes is how much is collected for a slow follower; beyond it the follower
	// reads from the stream instead.
	liveBytes = 4 << 20
)

// follow subscribes first and then catches up, so that nothing between is missed.
func (r *reader) follow(ctx context.Context) error {
	live, err := r.log.listen(r.session)
	if err != nil {
		return err
	}
	defer live.stop()
	status := r.log.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer r.log.nc.RemoveStatusListener(status)
	if err := r.begin(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	behind := true
	for {
		if behind {
			if err := r.catchUp(ctx); err != nil {
				return err
			}
		}
		if err := r.drain(ctx, live); err != nil {
			return err
		}
		behind, err = wait(ctx, live, status, tick.C)
		if err != nil {
			return err
		}
	}
}

// wait sleeps until something happens; behind reports that the stream itself must
// be read.
func wait(ctx context.Context, live *live, status <-chan nats.Status, tick <-chan time.Time) (behind bool, err error) {
	select {
	case <-live.wake:
		return false, nil
	case s := <-status:
		if s == nats.CLOSED {
			return false, nats.ErrConnectionClosed
		}
		return true, nil
	case <-tick:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// drain yields what was received live, and reads the rest from the stream.
func (r *reader) drain(ctx context.Context, live *live) error {
	for {
		answers, lost := live.take()
		if lost {
			if err := r.catchUp(ctx); err != nil {
				return err
			}
		}
		if len(answers) == 0 {
			return nil
		}
		for _, answer := range answers {
			if err := r.receive(ctx, answer); err != nil {
				return err
			}
		}
	}
}

// receive handles one republished message.
func (r *reader) receive(ctx context.Context, answer *nats.Msg) error {
	m, err := fromAnswer(answer)
	if errors.Is(err, ErrCorrupt) && m.at > 0 {
		r.log.sayForeign(ctx, err)
	} else if err != nil {
		return err
	}
	if m.at <= r.at {
		return nil
	}
	before, err := sequence(answer.Header, jetstream.LastSequenceHeader)
	if err != nil {
		return fmt.Errorf("message %d: %w", m.at, err)
	}
	if before > r.at {
		if err := r.reach(ctx, before); err != nil {
			return err
		}
	}
	return r.take(m)
}

// reach catches up to a message that is known to be stored, though a replica may
// not have it yet. If it stays missing, retention removed it, and the next one
// shows it.
func (r *reader) reach(ctx context.Context, at uint64) error {
	for try := 1; try <= patience; try++ {
		if err := r.catchUp(ctx); err != nil || r.at >= at {
			return err
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return err
		}
	}
	return nil
}

// live collects what the server republishes for one session.
type live struct {
	sub *nats.Subscription
	// wake holds at most one signal that something was received.
	wake chan struct{}
	// gone is closed when the subscription's own goroutine has ended.
	gone chan struct{}

	mu    sync.Mutex
	queue []*nats.Msg
	bytes int
	lost  bool
}

func (l *Log) listen(sessionID string) (*live, error) {
	v := &live{wake: make(chan struct{}, 1), gone: make(chan struct{})}
	sub, err := l.nc.Subscribe(l.liveSubject(sessionID), v.receive)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	sub.SetClosedHandler(func(string) { close(v.gone) })
	v.sub = sub
	return v, nil
}

func (v *live) receive(m *nats.Msg) {
	v.mu.Lock()
	if v.bytes+len(m.Data) > liveBytes {
		v.lost = true
	} else {
		v.queue = append(v.queue, m)
		v.bytes += len(m.Data)
	}
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

func (v *live) take() (answers []*nats.Msg, lost bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	answers, lost = v.queue, v.lost
	v.queue, v.bytes, v.lost = nil, 0, false
	return answers, lost
}

// stop ends the subscription and waits for its goroutine, unless the connection
// is lost, which ends it by itself.
func (v *live) stop() {
	if err := v.sub.Unsubscribe(); err == nil {
		<-v.gone
	}
}
