package activities

import (
	"context"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/turn"
)

// startPatience is how long an agent that starts may keep an interrupt waiting before it
// counts as sent.
const startPatience = time.Minute

// interrupt asks the agent to stop, now or as soon as it can be asked. Why is saved before:
// the agent may stop for it though this attempt dies before it knows that it was asked.
func (a *attempt) interrupt(ctx context.Context, do turn.InterruptAgent) error {
	first := a.checkpoint.Open.Interrupt == nil
	if first {
		a.checkpoint.Open.InterruptID = do.ID
	}
	if _, err := a.step(ctx, turn.Interrupting{Reason: do.Reason, Now: time.Now()}); err != nil {
		return err
	}
	if err := a.dialogue.Say(ctx, do.ID, adapters.Interrupt{}); err != nil || !first {
		return err
	}
	return a.interruptWaits(ctx)
}

// interruptWaits postpones the next step for an agent that can't be asked yet.
func (a *attempt) interruptWaits(ctx context.Context) error {
	open := a.checkpoint.Open
	if open.InterruptWaits || !a.dialogue.Waits(open.InterruptID) {
		return nil
	}
	now := time.Now().UTC()
	open.InterruptWaits, open.InterruptedAt = true, now.Add(startPatience)
	_, err := a.step(ctx, turn.Interrupting{Reason: open.Interrupt.Reason, Now: now, Waits: startPatience})
	return err
}

// interruptSent has the time until the next step begin when the agent is sent an interrupt
// that waited for it.
func (a *attempt) interruptSent(ctx context.Context) error {
	open := a.checkpoint.Open
	if open == nil || !open.InterruptWaits || a.dialogue.Waits(open.InterruptID) {
		return nil
	}
	open.InterruptWaits, open.InterruptedAt = false, time.Now().UTC()
	_, err := a.step(ctx, turn.Interrupting{Reason: open.Interrupt.Reason, Now: open.InterruptedAt})
	return err
}

// interruptAgain sends the interrupt of an earlier attempt, which may have died before it
// sent it; the runner writes it once.
func (a *attempt) interruptAgain(ctx context.Context) error {
	open := a.checkpoint.Open
	if open.Interrupt == nil || open.InterruptID == "" {
		return nil
	}
	if err := a.dialogue.Say(ctx, open.InterruptID, adapters.Interrupt{}); err != nil {
		return err
	}
	if err := a.interruptWaits(ctx); err != nil {
		return err
	}
	return a.interruptSent(ctx)
}

func (a *attempt) saveInterrupt() error {
	if i, open := a.machine.Interrupt, a.checkpoint.Open; i != nil && open.Interrupt == nil {
		open.Interrupt, open.InterruptedAt = &contract.Interrupt{Reason: i.Reason}, time.Now().UTC()
	}
	a.checkpoint.Open.Cut = a.machine.Cut
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}
