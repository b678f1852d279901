package starter

import (
	"context"
	"fmt"
	"iter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/stream"
)

// catchUp shows the conversation so far and returns the number of its last event.
// It sets the running turns and open requests.
func (t *talk) catchUp(ctx context.Context) (after uint64, err error) {
	return t.replay(func(after uint64) iter.Seq2[event.Event, error] { return t.h.Events(ctx, after, false) })
}

// replay is catchUp for what read yields.
func (t *talk) replay(read func(after uint64) iter.Seq2[event.Event, error]) (after uint64, err error) {
	var b reducer.Builder
	for e, err := range stream.Left(0, read) {
		if err != nil {
			return 0, err
		}
		if first := e.Context.Seq; after == 0 && first > 1 {
			t.hint(fmt.Sprintf("events 1 to %d are past the stream's retention; sojourn show has the whole conversation", first-1))
		}
		b.Add(e)
		t.tree.note(e)
		t.note(e)
		after = e.Context.Seq
	}
	for _, sub := range b.State().Subagents {
		if sub.ChildSessionID != "" && sub.Status == event.ExecutionRunning {
			t.live = append(t.live, sub.ChildSessionID)
		}
	}
	if t.p == nil {
		return after, nil
	}
	if t.tty {
		t.hint("talking to session " + t.h.ID() + "; Ctrl-C interrupts a turn, /quit leaves")
	}
	if err := t.p.Recent(b.State()); err != nil {
		return after, err
	}
	return after, t.showAsk()
}
