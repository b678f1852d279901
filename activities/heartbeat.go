package activities

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
)

// phase is what the heartbeats of an activity show that leases no agent; see
// [host.Heartbeater] for the one that does.
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

// showPhase puts what the turn has come to so far into the next heartbeat.
func (a *attempt) showPhase(words string) {
	s, asked := &a.machine.Summary, len(a.machine.Asked)
	if asked > 0 {
		words = "waiting for permission"
	}
	a.details.Store(&contract.HeartbeatDetails{
		Phase: words, LastBlock: s.LastBlock, Events: s.Events, Deltas: s.Deltas,
		Tokens: s.Usage.InputTokens + s.Usage.OutputTokens, CostUSD: costInWords(s.CostUSD),
		Seconds: int(time.Since(a.began).Seconds()), Waiting: asked, Ended: a.checkpoint.Result(a.in),
	})
}

// costInWords is empty for an unknown cost, which the details leave out.
func costInWords(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf("$%.4f", *usd)
}

// heartbeatEnded lets Temporal know how the turn ended before it is archived: with its
// host the archive may lose it, and then the stream may be deleted. A Temporal that
// is away is not waited for.
func (a *attempt) heartbeatEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, host.HeartbeatEvery)
	defer cancel()
	a.showPhase("archiving")
	a.heartbeater.Send(ctx)
}
