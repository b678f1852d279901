package activities

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

// DefaultLease is how long an agent in the middle of a turn lives without an
// acknowledged heartbeat. It is shorter than the heartbeat timeout and the
// schedule-to-start timeout of a turn together: when Temporal gives a host up,
// no agent of the turn runs there any more.
const DefaultLease = 40 * time.Second

// ackPatience bounds the wait for one heartbeat's acknowledgement. Leases are
// counted from the sending, so nothing is won by a late one.
const ackPatience = 5 * time.Second

// pulse is the heartbeat of an attempt and the lease that hangs on it: only
// what Temporal has acknowledged lets the agent live on. So a worker that is
// stopped, cut off or replaced can't keep an agent alive, and neither can an
// agent outlive the host's being given up.
type pulse struct {
	temporal Temporal
	token    []byte
	lease    time.Duration
	show     *atomic.Pointer[contract.HeartbeatDetails]
	log      *slog.Logger
	// gone cancels the attempt when Temporal no longer wants it.
	gone context.CancelCauseFunc

	stopped context.CancelFunc
	done    chan struct{}

	mu sync.Mutex
	// conn is the runner whose lease is renewed; nil before there is one.
	conn *runner.Conn
	// acked is when the last acknowledged beat was sent; heard is closed by the
	// first.
	acked runner.BootClock
	heard chan struct{}
}

// startPulse beats until stop. The context that it gives ends when Temporal
// says that the attempt is over; its cause says why.
func (h *Host) startPulse(ctx context.Context, show *atomic.Pointer[contract.HeartbeatDetails]) (context.Context, *pulse) {
	p := &pulse{
		temporal: h.o.Temporal, token: activity.GetInfo(ctx).TaskToken, lease: h.o.Lease, show: show, log: h.o.Log,
		done: make(chan struct{}), heard: make(chan struct{}),
	}
	ctx, p.gone = context.WithCancelCause(ctx)
	beating, stop := context.WithCancel(ctx)
	p.stopped = stop
	go func() {
		defer close(p.done)
		every(beating, beatEvery, func() { p.once(beating) })
	}()
	return ctx, p
}

// stop ends the beating. The lease stands as it was renewed last.
func (p *pulse) stop() {
	p.stopped()
	<-p.done
	p.gone(nil)
}

func (p *pulse) once(ctx context.Context) {
	since := runner.BootTime()
	short, cancel := context.WithTimeout(ctx, ackPatience)
	defer cancel()
	err := p.temporal.RecordActivityHeartbeat(short, p.token, p.show.Load())
	switch {
	case err == nil:
		if err := p.renew(short, since); err != nil {
			p.log.Debug("the agent's lease is not renewed", "error", err)
		}
	case ctx.Err() != nil:
	case unwanted(err):
		p.gone(err)
	default:
		// Temporal is away: the agent goes on for as long as its lease.
		p.log.Warn("no acknowledgement of a heartbeat", "error", err)
	}
}

// unwanted says whether Temporal has no use for the attempt any more: it was
// paused, timed out, replaced, or its workflow has ended.
func unwanted(err error) bool {
	var canceled *temporal.CanceledError
	var notFound *serviceerror.NotFound
	return errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) ||
		errors.As(err, &canceled) || errors.As(err, &notFound)
}

// renew lets the agent live for a lease from an acknowledged moment on.
func (p *pulse) renew(ctx context.Context, since runner.BootClock) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.heard:
	default:
		close(p.heard)
	}
	p.acked = since
	if p.conn == nil {
		return nil
	}
	return p.conn.LeaseSince(ctx, p.lease, since)
}

// await returns when Temporal has acknowledged a beat of the attempt. No agent
// may be started before: an attempt that was given up meanwhile, while its
// worker was stopped say, would leave one behind that nobody owns.
func (p *pulse) await(ctx context.Context) error {
	select {
	case <-p.heard:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold puts an agent on the lease. Nothing may be asked of it before: an
// attempt that Temporal has given up meanwhile must not set an agent to work.
func (p *pulse) hold(ctx context.Context, conn *runner.Conn) error {
	if err := p.await(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	err := conn.LeaseSince(ctx, p.lease, p.acked)
	if errors.Is(err, runner.ErrExited) {
		// What it said until then is still to be read.
		return nil
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// release ends the beating and takes the lease off an agent that has nothing
// to do any more.
func (p *pulse) release(ctx context.Context) error {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return nil
	}
	err := p.conn.Lease(ctx, 0)
	if errors.Is(err, runner.ErrExited) || errors.Is(err, runner.ErrClosed) {
		return nil
	}
	return err
}
