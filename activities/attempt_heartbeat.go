package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
)

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
