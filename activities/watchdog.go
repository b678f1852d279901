package activities

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// patience is how long the agent may say nothing at all.
func (t *turn) patience() time.Duration {
	return cmp.Or(time.Duration(t.in.NoProgressMS)*time.Millisecond, session.DefaultNoProgress)
}

// stirred notes that something goes on: the agent said something, or was told
// something. What it logs and how its process fares is no progress, nor is what
// it says only to show that it runs.
//
// A worker that comes to a silent agent reads records of before: the silence
// counts from their time on, so workers that come and go don't let it hang for
// ever. But half of the patience is always left, as the clock that stamped them
// may have been set since.
func (t *turn) stirred(r event.Record) {
	if r.Dir != event.DirOut && r.Dir != event.DirIn {
		return
	}
	if b, ok := t.agent.adapter.(adapters.Beating); ok && r.Dir == event.DirOut && b.Beats(r.Line) {
		return
	}
	age := min(max(time.Since(r.TS), 0), t.patience()/2)
	if since := time.Now().Add(-age); since.After(t.quiet) {
		t.quiet = since
	}
}

// watch has a turn interrupted whose agent says nothing. The wait for a person
// is not the agent's silence.
func (t *turn) watch(ctx context.Context) error {
	if len(t.asked) > 0 {
		t.quiet = time.Now()
	}
	if t.stop.asked || time.Since(t.quiet) < t.patience() {
		return nil
	}
	t.mark.Open.Cut = &event.ErrorInfo{
		Message: fmt.Sprintf("the agent said nothing for %s: the turn was ended", t.patience()), Code: session.TypeNoProgress,
	}
	return t.interrupt(ctx, "no-progress-"+t.in.ExecutionID, "no progress")
}

// cut is what a turn fails with that Sojourn itself had interrupted; nil for
// any other.
func (t *turn) cut() *event.ErrorInfo {
	if t.mark.Open == nil {
		return nil
	}
	return t.mark.Open.Cut
}
