package session

import (
	"context"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// Callbacks are called with what happens in a session, one after another and in order; each
// may be nil. They are called for the session's own executions and not for those of children,
// which are sessions of their own.
type Callbacks struct {
	// OnEvent is called with every event, before the other ones.
	OnEvent func(event.Event)
	// OnTickStart is called when a model call of the main conversation begins: the number of
	// the call in its execution, from 1. An agent that reports no calls has no ticks.
	OnTickStart func(tick int, executionID string)
	// OnTickEnd is called when the next call begins or the execution ends; usage is what the
	// agent reported of the call, nil for nothing.
	OnTickEnd func(tick int, usage *event.Usage)
	// OnToolConfirmation is called when a tool call, or a question, needs an answer: see
	// Handle.RespondTo. It is called for those too that the session's rules answer at once, and
	// for those of the past that were answered: Client.Requests has the open ones.
	OnToolConfirmation func(event.Event)
	// OnComplete is called when an execution has been answered or interrupted. A long answer
	// is truncated, as Result.Result reports, which is nil for an execution that never ran;
	// Handle.Wait has it whole.
	OnComplete func(Result)
	// OnError is called when an execution has failed, and with faults that are no block of the
	// conversation.
	OnError func(error)
}

// Listen calls back with the session's events after a sequence number until the session is
// closed; the receipt of a message has the number before its own. Executions that began before
// have no ticks here. Its errors are those of Events.
func (h *Handle) Listen(ctx context.Context, after uint64, c Callbacks) error {
	to := []*listener{{Callbacks: c}}
	if h.c.o.Callbacks != nil {
		to = []*listener{{Callbacks: h.c.o.Callbacks(h)}, to[0]}
	}
	for ev, err := range h.Events(ctx, after, Follow) {
		if err != nil {
			return fmt.Errorf("listen to session %s: %w", h.id, err)
		}
		for _, l := range to {
			l.add(ev)
		}
	}
	return nil
}

// listener turns events into calls. Of the running execution it has the number of the model
// call at work, 0 before the first one, and what the blocks of that call have cost.
type listener struct {
	Callbacks
	execution string
	tick      int
	usage     map[string]event.Usage
}

func (l *listener) add(ev event.Event) {
	call(l.OnEvent, ev)
	if q, how, ended := endOf(ev); ended {
		l.end(q, how)
		return
	}
	main := ev.Context.Conversation() == event.Main
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		if l.execution != p.ExecutionID { // one that is resumed keeps its count
			l.execution, l.tick, l.usage = p.ExecutionID, 0, nil
		}
	case event.MetadataUpdate:
		for range p.Calls {
			if main && l.execution != "" {
				l.next()
			}
		}
	case event.BlockUpsert:
		if p.Block.Usage != nil && main && l.tick > 0 {
			l.usage[p.Block.ID] = *p.Block.Usage
		}
	case event.PermissionRequested:
		call(l.OnToolConfirmation, ev)
	case event.Error:
		call(l.OnError, fmt.Errorf("session %s: %s", ev.Context.SessionID, p.Message))
	}
}

// next ends the running model call and begins another.
func (l *listener) next() {
	l.endTick()
	l.tick++
	l.usage = map[string]event.Usage{}
	if l.OnTickStart != nil {
		l.OnTickStart(l.tick, l.execution)
	}
}

func (l *listener) endTick() {
	if l.tick == 0 || l.OnTickEnd == nil {
		return
	}
	var usage *event.Usage
	for _, u := range l.usage {
		if usage != nil {
			u = usage.Add(u)
		}
		usage = &u
	}
	l.OnTickEnd(l.tick, usage)
}

func (l *listener) end(q event.Query, how Outcome) {
	if l.execution == q.ExecutionID { // else of one that waited, and was cancelled
		l.endTick()
		l.execution, l.tick, l.usage = "", 0, nil
	}
	message := ""
	if len(q.MessageIDs) > 0 {
		message = q.MessageIDs[0]
	}
	res := resultOf(q, message, how)
	if how == Failed {
		call(l.OnError, res.Err())
		return
	}
	call(l.OnComplete, res)
}

func call[T any](f func(T), v T) {
	if f != nil {
		f(v)
	}
}
