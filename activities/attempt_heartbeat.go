package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn/summary"
)

// showPhase sets the turn's phase and progress in the next heartbeat.
func (a *attempt) showPhase(words string) {
	s, asked := &a.machine.Summary, len(a.machine.Asked)
	if asked > 0 {
		words = "waiting for permission"
	}
	a.details.Store(&contract.HeartbeatDetails{
		Progress: progressOf(s), Phase: words, LastBlock: s.LastBlock, Events: s.Events, Deltas: s.Deltas,
		Tokens: s.Usage.InputTokens + s.Usage.OutputTokens, CostUSD: costInWords(s.CostUSD),
		Seconds: int(time.Since(a.began).Seconds()), Waiting: asked, Ended: a.checkpoint.Result(a.in),
	})
}

// progressOf returns a copy: heartbeats read it while the turn runs.
func progressOf(s *summary.Summary) session.Progress {
	p := session.Progress{Tools: slices.Clone(s.Tools)}
	if s.Ticks != nil {
		n := *s.Ticks
		p.Ticks = &n
	}
	return p
}

// costInWords returns "" for an unknown cost, which the details omit.
func costInWords(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf("$%.4f", *usd)
}

// heartbeatEnded reports the turn's result to Temporal before the turn is archived: if the
// host is lost, so is what was not archived, and the stream may be deleted later. It does
// not wait for a Temporal that is unavailable.
func (a *attempt) heartbeatEnded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, host.HeartbeatEvery)
	defer cancel()
	a.showPhase("archiving")
	a.heartbeater.Send(ctx)
}
