package activities

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

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
func beat(ctx context.Context, show *atomic.Pointer[Beat]) (stop func()) {
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
func (t *turn) beatEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	t.showBeat("archiving")
	t.pulse.once(ctx)
}

// showBeat puts what the turn heard so far into the next heartbeat.
func (t *turn) showBeat(phase string) {
	if len(t.asked) > 0 {
		phase = "waiting for permission"
	}
	t.show.Store(&Beat{
		Phase: phase, LastBlock: t.tale.last, Events: t.tale.events, Deltas: t.tale.deltas,
		Tokens: t.tale.usage.InputTokens + t.tale.usage.OutputTokens, CostUSD: beatCost(t.tale.costUSD),
		Seconds: int(time.Since(t.began).Seconds()), Waiting: len(t.asked), Ended: t.mark.ended(t.in),
	})
}
