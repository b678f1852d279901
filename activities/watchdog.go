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

// noteProgress takes a record as a sign of progress: the agent said something,
// or was told something. What it logs and how its process fares is no progress,
// nor is what it says only to show that it runs.
//
// The silence counts from the record's own time, whichever worker reads it, so
// workers that come and go don't put its end off.
func (t *turn) noteProgress(r event.Record) {
	if r.Dir != event.DirOut && r.Dir != event.DirIn {
		return
	}
	if b, ok := t.agent.adapter.(adapters.Beating); ok && r.Dir == event.DirOut && b.Beats(r.Line) {
		return
	}
	age := max(time.Since(r.TS), 0)
	if at := time.Now().Add(-age); at.After(t.lastWord) {
		t.lastWord = at
	}
}

// watch has a turn interrupted whose agent says nothing. The wait for a person
// is not the agent's silence.
func (t *turn) watch(ctx context.Context) error {
	if len(t.asked) > 0 {
		t.lastWord = time.Now()
	}
	if t.lastWord.IsZero() {
		t.lastWord = t.began
	}
	if t.stop.asked || time.Since(t.lastWord) < t.patience() {
		return nil
	}
	if read, err := t.readAll(ctx); err != nil || !read {
		return err
	}
	t.mark.Open.Cut = &event.ErrorInfo{
		Message: fmt.Sprintf("the agent said nothing for %s: the turn was ended", t.patience()), Code: session.TypeNoProgress,
	}
	return t.interrupt(ctx, "no-progress-"+t.in.ExecutionID, "no progress")
}

// readAll reports whether this attempt has read all that the spool holds. One
// that has not, because it has only just begun or because the stream kept it
// waiting, can't judge how long the agent has been silent.
func (t *turn) readAll(ctx context.Context) (bool, error) {
	status, err := t.agent.conn.Status(ctx)
	if err != nil {
		return false, fmt.Errorf("session %s: look for the agent's last word: %w", t.in.Agent.SessionID, err)
	}
	return t.next >= status.SpoolEnd, nil
}

// cut is what a turn fails with that Sojourn itself had interrupted; nil for
// any other.
func (t *turn) cut() *event.ErrorInfo {
	if t.mark.Open == nil {
		return nil
	}
	return t.mark.Open.Cut
}
