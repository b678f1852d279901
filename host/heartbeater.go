package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
)

// DefaultLease is how long an agent in the middle of a turn lives without an acknowledged
// heartbeat. It is shorter than the heartbeat timeout and the schedule-to-start timeout of
// a turn together: when Temporal gives a host up, no agent of the turn runs there any more.
const DefaultLease = 40 * time.Second

// AckPatience bounds the wait for one heartbeat's acknowledgement, and for other short
// requests during a turn. Leases are counted from the sending, so a late acknowledgement is
// of no use.
const AckPatience = 5 * time.Second

// HeartbeatEvery is well within the heartbeat timeout.
const HeartbeatEvery = time.Second

// Heartbeater heartbeats for an attempt, and renews its agent's lease with each heartbeat
// that Temporal acknowledges, and with nothing else. So a worker that is stopped,
// disconnected or replaced can't keep an agent alive, and no agent outlives the moment when
// Temporal gives its host up.
type Heartbeater struct {
	temporal Temporal
	token    []byte
	lease    time.Duration
	details  *atomic.Pointer[contract.HeartbeatDetails]
	log      *slog.Logger
	// cancel ends the attempt when Temporal no longer wants it.
	cancel context.CancelCauseFunc

	stop context.CancelFunc
	done chan struct{}

	mu sync.Mutex
	// conn is the runner whose lease is renewed; nil before there is one.
	conn *runner.Conn
	// acked is when the last acknowledged heartbeat was sent; first is closed by the first
	// acknowledgement.
	acked runner.BootClock
	first chan struct{}
}

// Heartbeat heartbeats for the activity of ctx, with the current details, until Stop. The
// context that it returns ends when Temporal reports the attempt as over; its cause is the
// reason.
func (h *Host) Heartbeat(ctx context.Context, details *atomic.Pointer[contract.HeartbeatDetails]) (context.Context, *Heartbeater) {
	b := &Heartbeater{
		temporal: h.o.Temporal, token: activity.GetInfo(ctx).TaskToken, lease: h.o.Lease, details: details, log: h.o.Log,
		done: make(chan struct{}), first: make(chan struct{}),
	}
	ctx, b.cancel = context.WithCancelCause(ctx)
	beating, stop := context.WithCancel(ctx)
	b.stop = stop
	go func() {
		defer close(b.done)
		Every(beating, HeartbeatEvery, func() { b.Send(beating) })
	}()
	return ctx, b
}

// Stop ends the heartbeats. The lease continues from its last renewal.
func (b *Heartbeater) Stop() {
	b.stop()
	<-b.done
	b.cancel(nil)
}

// Send sends one heartbeat now.
func (b *Heartbeater) Send(ctx context.Context) {
	since := runner.BootTime()
	short, cancel := context.WithTimeout(ctx, AckPatience)
	defer cancel()
	err := b.temporal.RecordActivityHeartbeat(short, b.token, b.details.Load())
	switch {
	case err == nil:
		if err := b.renew(short, since); err != nil {
			b.log.Debug("the agent's lease is not renewed", "error", err)
		}
	case ctx.Err() != nil:
	case unwanted(err):
		b.cancel(err)
	default:
		// Temporal is unavailable: the agent continues for the rest of its lease.
		b.log.Warn("no acknowledgement of a heartbeat", "error", err)
	}
}

// unwanted reports whether Temporal no longer wants the attempt: it was paused, timed out,
// replaced, or its workflow has ended.
func unwanted(err error) bool {
	var canceled *temporal.CanceledError
	var notFound *serviceerror.NotFound
	return errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) ||
		errors.As(err, &canceled) || errors.As(err, &notFound)
}

// renew lets the agent live for a lease, counted from the sending of an acknowledged
// heartbeat.
func (b *Heartbeater) renew(ctx context.Context, since runner.BootClock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.first:
	default:
		close(b.first)
	}
	b.acked = since
	if b.conn == nil {
		return nil
	}
	return b.conn.LeaseSince(ctx, b.lease, since)
}

// AwaitFirst returns when Temporal has acknowledged a heartbeat of the attempt. No agent
// may be started before: an attempt that timed out meanwhile, such as one whose worker was
// stopped, would leave an orphan behind.
func (b *Heartbeater) AwaitFirst(ctx context.Context) error {
	select {
	case <-b.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lease puts an agent on the lease. It must be sent nothing before: an attempt that timed
// out meanwhile must not make an agent work.
func (b *Heartbeater) Lease(ctx context.Context, conn *runner.Conn) error {
	if err := b.AwaitFirst(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn = conn
	err := conn.LeaseSince(ctx, b.lease, b.acked)
	if errors.Is(err, runner.ErrExited) {
		// What it wrote until then is still read.
		return nil
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}
