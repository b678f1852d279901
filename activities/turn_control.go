package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// control serves a request of SendControl.
func (t *turn) control(ctx context.Context, in ControlInput) error {
	switch {
	case in.Interrupt != nil:
		return t.interrupt(ctx, in.ID, in.Interrupt.Reason)
	case in.Answer != nil:
		return t.answer(ctx, *in.Answer)
	}
	if in.Options != nil {
		if err := t.changeOptions(ctx, in.ID, *in.Options); err != nil {
			return err
		}
	}
	if len(in.Events) == 0 {
		return nil
	}
	return t.emit(ctx, in.ID, in.Events)
}

// emit appends events of the workflow's own among the agent's. Where they stand
// is read from the stream when the turn is over.
func (t *turn) emit(ctx context.Context, key string, events []event.Event) error {
	if _, err := t.host.o.Stream.Emit(ctx, t.in.Agent.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: t.fence.Epoch}, LastSeq: t.writer.Tail().LastSeq, Key: key, Events: events,
	}); err != nil {
		return err
	}
	if err := announceChanges(ctx, t.host.o.Stream, t.in.Agent.SessionID, events); err != nil {
		return err
	}
	t.owned = true
	return nil
}

// archivePatience is how long a turn waits for the archive at its end. The
// archive catches up later.
const archivePatience = 5 * time.Second

// changeOptions tells the running agent. One that can't be told is told with
// its next turn.
func (t *turn) changeOptions(ctx context.Context, id string, o Options) error {
	if o.Model != "" {
		err := t.dialogue.Say(ctx, id+"-model", adapters.SetModel{Model: o.Model})
		if err != nil && !errors.Is(err, adapters.ErrUnsupported) {
			return err
		}
		if err == nil {
			t.mark.Model, t.mark.Open.Options.Model = o.Model, o.Model
		}
	}
	if o.Permission != "" {
		err := t.dialogue.Say(ctx, id+"-permission", adapters.SetPermission{Permission: o.Permission})
		if err != nil && !errors.Is(err, adapters.ErrUnsupported) {
			return err
		}
		if err == nil {
			t.mark.Permission, t.mark.Open.Options.Permission = string(o.Permission), o.Permission
		}
	}
	return t.host.saveBookmark(t.in.Sandbox.ID, t.mark)
}

// permission answers a request by the standing policy, if that answers.
func (t *turn) permission(ctx context.Context, ev event.Event) error {
	p, ok := ev.Payload.(event.PermissionRequested)
	if !ok {
		return nil
	}
	switch adapters.Permission(t.mark.Permission) {
	case adapters.PermissionAllow:
		return t.answer(ctx, session.RespondRequest{RequestID: p.RequestID, Allow: true})
	case adapters.PermissionDeny:
		return t.answer(ctx, session.RespondRequest{RequestID: p.RequestID, Message: "This session's policy denies it."})
	}
	return nil
}

func (t *turn) answer(ctx context.Context, r session.RespondRequest) error {
	asked, open := t.asked[r.RequestID]
	if !open && t.answered[r.RequestID] {
		return nil
	}
	if !open {
		return session.Invalid("requestId", fmt.Sprintf("%q is not open", r.RequestID), "the id of an open request")
	}
	input := r.Input
	if len(input) == 0 {
		input = asked.Input
	}
	if !r.Allow && r.Message == "" {
		r.Message = "The user denied it."
	}
	t.answered[r.RequestID] = true
	if err := t.dialogue.Say(ctx, "answer-"+r.RequestID, adapters.Answer{
		RequestID: r.RequestID, Allow: r.Allow, Message: r.Message, Input: input,
	}); err != nil {
		return err
	}
	t.waits.remove(r.RequestID)
	if !t.waits.tell {
		// The workflow takes its own answer off.
		t.waits.told = t.waits.open
	}
	return nil
}
