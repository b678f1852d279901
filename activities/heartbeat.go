package activities

import (
	"context"
	"sync/atomic"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
)

// phase is what the heartbeats of an activity without an agent's lease show; see
// [host.Heartbeater] for the one with a lease.
type phase struct {
	details atomic.Pointer[contract.HeartbeatDetails]
	stop    func()
}

// heartbeat heartbeats for an activity until stop is called.
func heartbeat(ctx context.Context, words string) *phase {
	p := &phase{}
	p.set(words)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		host.Every(ctx, host.HeartbeatEvery, func() { activity.RecordHeartbeat(ctx, p.details.Load()) })
	}()
	p.stop = func() { cancel(); <-done }
	return p
}

// set changes what the next heartbeat shows.
func (p *phase) set(words string) { p.details.Store(&contract.HeartbeatDetails{Phase: words}) }
