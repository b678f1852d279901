package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-run/sojourn/test/harness"
)

// killStack ends all servers and all workers at once, as a power cut would, except for
// the agents, and starts them again.
func (d *driver) killStack(ctx context.Context) bool {
	if len(d.inTurn()) == 0 {
		return false
	}
	d.strike(StackKill, func(*testCase) bool { return true }, "")
	ended := map[*host]*harness.Process{}
	for _, h := range d.hosts.living() {
		if p := h.take(); p != nil {
			ended[h] = p
		}
	}
	if err := d.stack.KillServers(); err != nil {
		d.note("kill all servers: %v", err)
	}
	for _, p := range ended {
		if err := p.Kill(); err != nil {
			d.note("end a worker: %v", err)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if err := d.stack.RestartServers(ctx); err != nil {
		d.note("the servers did not come back: %v", err)
	}
	for h := range ended {
		d.hosts.replace(ctx, h, func() error { return nil })
	}
	return true
}

// deletion is a time without a stream.
type deletion struct {
	at time.Time
	// back is when the stream was made anew, zero until then.
	back time.Time
}

// deleteStream deletes the stream. Only events that subscribers had not read yet may be
// lost.
func (d *driver) deleteStream(ctx context.Context) bool {
	if len(d.inTurn()) == 0 {
		return false
	}
	d.strike(StreamDelete, func(*testCase) bool { return true }, "")
	d.mu.Lock()
	n := len(d.deleted)
	d.deleted = append(d.deleted, deletion{at: time.Now()})
	d.mu.Unlock()
	err := d.withStream(ctx, func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, "SOJOURN") })
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		d.note("delete the stream: %v", err)
	}
	go d.awaitStream(context.WithoutCancel(ctx), n)
	return true
}

// awaitStream records when the stream is back after a deletion.
func (d *driver) awaitStream(ctx context.Context, n int) {
	err := insist(ctx, func(ctx context.Context) error {
		return d.withStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "SOJOURN")
			if err != nil {
				return err
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.deleted[n].back = s.CachedInfo().Created
			return nil
		})
	})
	if err != nil {
		d.note("the deleted stream is not back: %v", err)
	}
}

// deletions returns the times at which the stream was deleted, of those that a session
// that began at since may know: it was deleted after that, or was not back. A session
// that begins while there is no stream can't know that it had no events.
func (d *driver) deletions(since time.Time) (out []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.deleted {
		if x.at.After(since) || x.back.IsZero() || x.back.After(since) {
			out = append(out, x.at)
		}
	}
	return out
}
