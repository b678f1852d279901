package activities

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

// Beat is what a running turn's heartbeat shows to operators, in the Web UI's
// pending activities. Ended alone is more than display.
type Beat struct {
	Phase     string `json:"phase"`
	LastBlock string `json:"lastBlock,omitempty"`
	Events    int    `json:"events"`
	Deltas    int    `json:"deltas"`
	Tokens    int64  `json:"tokens"`
	CostUSD   string `json:"cost,omitempty"`
	Seconds   int    `json:"seconds"`
	Waiting   int    `json:"waitingPermissions,omitempty"`
	// Ended is how the execution ended, once its end is in the stream. A host that
	// is lost before the activity completes leaves it to the workflow.
	Ended *session.Result `json:"ended,omitempty"`
}

// beatEvery is well within the heartbeat timeout.
const beatEvery = time.Second

// beat heartbeats until the returned stop is called. It serves the activities
// that hold no agent's lease; see pulse for the one that does.
func beat(ctx context.Context, show *atomic.Pointer[contract.HeartbeatDetails]) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		every(ctx, beatEvery, func() { activity.RecordHeartbeat(ctx, show.Load()) })
	}()
	return func() { cancel(); <-done }
}

// every does something now and then each period, until ctx ends.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beatCost is a cost in words; empty for an unknown one, which a beat leaves out.
func beatCost(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf("$%.4f", *usd)
}

// beatEnded lets Temporal know how the turn ended before it is archived: with its
// host the archive may lose it, and then the stream may be deleted. A Temporal that
// is away is not waited for.
func (a *attempt) beatEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	a.showBeat("archiving")
	a.pulse.once(ctx)
}

// showBeat puts what the turn heard so far into the next heartbeat.
func (a *attempt) showBeat(phase string) {
	s, asked := &a.machine.Summary, len(a.machine.Asked)
	if asked > 0 {
		phase = "waiting for permission"
	}
	a.show.Store(&contract.HeartbeatDetails{
		Phase: phase, LastBlock: s.LastBlock, Events: s.Events, Deltas: s.Deltas,
		Tokens: s.Usage.InputTokens + s.Usage.OutputTokens, CostUSD: beatCost(s.CostUSD),
		Seconds: int(time.Since(a.began).Seconds()), Waiting: asked, Ended: a.checkpoint.Result(a.in),
	})
}
