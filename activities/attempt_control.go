package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/steering"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// control handles a request of SendControl.
func (a *attempt) control(ctx context.Context, in contract.ControlInput) (err error) {
	switch {
	case in.Interrupt != nil:
		_, err = a.step(ctx, turn.InterruptRequested{ID: in.ID, Reason: in.Interrupt.Reason})
		return err
	case in.Answer != nil:
		r := in.Answer
		if err := a.checkInput(*r); err != nil {
			return err
		}
		_, err = a.step(ctx, turn.Responded{RequestID: r.RequestID, Allow: r.Allow, Message: r.Message, Input: r.Input, By: cmp.Or(r.By, event.ByUser)})
		return err
	}
	if in.Steer != nil {
		_, err = a.step(ctx, turn.SteerRequested{Message: steeredOf(a.adapter, *in.Steer)})
		return err
	}
	if in.Bounds != nil {
		if err := a.rebind(*in.Bounds); err != nil {
			return err
		}
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

// checkInput refuses a changed tool input for an agent that would ignore the change.
func (a *attempt) checkInput(r session.RespondRequest) error {
	asked, open := a.machine.Asked[r.RequestID]
	_, changes := a.adapter.(adapters.InputChanging)
	if !open || changes || !r.Allow || len(r.Input) == 0 || len(asked.Questions) > 0 || asked.ToolUseID == "" {
		return nil
	}
	if permission.Call(nil, "", r.Input, nil) == permission.Call(nil, "", asked.Input, nil) {
		return nil
	}
	return session.Invalid("input", fmt.Sprintf("can't be changed: %s runs what it asked for", a.in.Agent.Name), "allow, or deny with a message that says what to do instead")
}

// emit appends the workflow's server events among the agent's. Their anchors are read from
// the stream when the turn is over.
func (a *attempt) emit(ctx context.Context, key string, events []event.Event) error {
	if _, err := a.host.o.Stream.Emit(ctx, a.in.Agent.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: a.fence.Epoch}, LastSeq: a.writer.Tail().LastSeq, Key: key, Events: events, Stored: a.stored.add,
	}); err != nil {
		return err
	}
	if err := announceChanges(ctx, a.host.o.Stream, a.in.Agent.SessionID, events); err != nil {
		return err
	}
	a.machine.HasServer = true
	return nil
}

// rebind has the turn keep to other bounds, after saving them for its next attempt.
func (a *attempt) rebind(b contract.Bounds) error {
	a.bind(b)
	a.checkpoint.Open.Bounds, a.checkpoint.Open.BoundsOf = b, a.scheduled
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// changeOptions changes the options of the running agent. If it can't change them now, they
// are sent with its next turn.
func (a *attempt) changeOptions(ctx context.Context, id string, o contract.Options) error {
	if o.Model != "" {
		sent, err := a.trySend(ctx, id+"-model", adapters.SetModel{Model: o.Model})
		if err != nil {
			return err
		}
		if sent {
			a.setModel(o.Model)
			a.checkpoint.Open.Options.Model = o.Model
		}
	}
	if o.Permission != "" {
		sent, err := a.trySend(ctx, id+"-permission", adapters.SetPermission{Permission: a.mode(o.Permission)})
		if err != nil {
			return err
		}
		if sent {
			a.setPolicy(o.Permission)
			a.checkpoint.Open.Options.Permission = o.Permission
		}
	}
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// trySend sends the agent an input; sent is false if the agent doesn't support it.
func (a *attempt) trySend(ctx context.Context, id string, in adapters.Input) (sent bool, err error) {
	err = a.dialogue.Say(ctx, id, in)
	if errors.Is(err, adapters.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// steer sends the agent a message while it works, after saving that it has it.
func (a *attempt) steer(ctx context.Context, m steering.Message) error {
	a.checkpoint.Open.Steered = a.machine.Steered
	if err := a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint); err != nil {
		a.withdrawSteered(m.ID) // nothing was written, so no turn may wait until it is taken
		return err
	}
	// Not under its prompt's id: it may have to be sent again after this agent has exited.
	prompt := a.prompt(m.ID, m.Text, m.Parts)
	prompt.Steer = true
	sent, err := a.trySend(ctx, a.inputID("steer-"+m.ID), prompt)
	if sent || err != nil {
		return err
	}
	a.withdrawSteered(m.ID)
	return errors.Join(errNotNow, a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint))
}

// withdrawSteered takes a message back that the agent was not sent.
func (a *attempt) withdrawSteered(id string) {
	a.machine.Step(turn.SteerRefused{ID: id})
	a.checkpoint.Open.Steered = a.machine.Steered
}
