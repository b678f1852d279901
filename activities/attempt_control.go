package activities

import (
	"cmp"
	"context"
	"errors"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// control serves a request of SendControl.
func (a *attempt) control(ctx context.Context, in contract.ControlInput) (err error) {
	switch {
	case in.Interrupt != nil:
		_, err = a.step(ctx, turn.InterruptRequested{ID: in.ID, Reason: in.Interrupt.Reason})
		return err
	case in.Answer != nil:
		r := in.Answer
		_, err = a.step(ctx, turn.Responded{RequestID: r.RequestID, Allow: r.Allow, Message: r.Message, Input: r.Input, By: cmp.Or(r.By, event.ByUser)})
		return err
	}
	if in.Options != nil {
		if err := a.changeOptions(ctx, in.ID, *in.Options); err != nil {
			return err
		}
	}
	if len(in.Events) == 0 {
		return nil
	}
	return a.emit(ctx, in.ID, in.Events)
}

// emit appends server events of the workflow's among the agent's. Their places are
// read from the stream when the turn is over.
func (a *attempt) emit(ctx context.Context, key string, events []event.Event) error {
	if _, err := a.host.o.Stream.Emit(ctx, a.in.Agent.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: a.fence.Epoch}, LastSeq: a.writer.Tail().LastSeq, Key: key, Events: events,
	}); err != nil {
		return err
	}
	if err := announceChanges(ctx, a.host.o.Stream, a.in.Agent.SessionID, events); err != nil {
		return err
	}
	a.machine.HasServer = true
	return nil
}

// changeOptions tells the running agent. One that can't be told is told with its next
// turn.
func (a *attempt) changeOptions(ctx context.Context, id string, o contract.Options) error {
	if o.Model != "" {
		told, err := a.tell(ctx, id+"-model", adapters.SetModel{Model: o.Model})
		if err != nil {
			return err
		}
		if told {
			a.checkpoint.Model, a.checkpoint.Open.Options.Model = o.Model, o.Model
		}
	}
	if o.Permission != "" {
		told, err := a.tell(ctx, id+"-permission", adapters.SetPermission{Permission: a.mode(o.Permission)})
		if err != nil {
			return err
		}
		if told {
			a.setPolicy(o.Permission)
			a.checkpoint.Open.Options.Permission = o.Permission
		}
	}
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// tell reports whether the agent can be told at all.
func (a *attempt) tell(ctx context.Context, id string, in adapters.Input) (told bool, err error) {
	err = a.dialogue.Say(ctx, id, in)
	if errors.Is(err, adapters.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}
