package starter

import (
	"context"
	"errors"

	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/stream"
)

// catchUp shows the conversation so far and returns the number of its last event.
// It sets the running turns and open questions.
func (t *talk) catchUp(ctx context.Context) (after uint64, err error) {
	var b reducer.Builder
	for e, err := range t.h.Events(ctx, 0, false) {
		if errors.Is(err, stream.ErrPurged) {
			return t.tail(ctx)
		}
		if err != nil {
			return 0, err
		}
		b.Add(e)
		t.note(e)
		after = e.Context.Seq
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

// tail handles a conversation whose beginning the stream no longer has.
func (t *talk) tail(ctx context.Context) (uint64, error) {
	log, err := t.c.log(ctx)
	if err != nil {
		return 0, err
	}
	tail, err := log.Tail(ctx, t.h.ID())
	return tail.LastSeq, err
}
