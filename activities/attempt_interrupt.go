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

// interrupt asks the agent to stop, now or as soon as it can be asked.
func (a *attempt) interrupt(ctx context.Context, do turn.InterruptAgent) error {
	if err := a.dialogue.Say(ctx, do.ID, adapters.Interrupt{}); err != nil {
		return err
	}
	asks := turn.Interrupting{Reason: do.Reason, Now: time.Now()}
	if open := a.checkpoint.Open; open.Interrupt == nil {
		open.InterruptID, open.InterruptWaits = do.ID, a.dialogue.Waits(do.ID)
		if open.InterruptWaits {
			asks.Waits = startPatience
		}
	}
	_, err := a.step(ctx, asks)
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

// interruptAgain sends the interrupt of an earlier attempt, which may have waited for the
// agent when that attempt died; the runner writes it once.
func (a *attempt) interruptAgain(ctx context.Context) error {
	open := a.checkpoint.Open
	if open.Interrupt == nil || open.InterruptID == "" {
		return nil
	}
	if err := a.dialogue.Say(ctx, open.InterruptID, adapters.Interrupt{}); err != nil {
		return err
	}
	return a.interruptSent(ctx)
}

func (a *attempt) saveInterrupt() error {
	if i, open := a.machine.Interrupt, a.checkpoint.Open; i != nil && open.Interrupt == nil {
		open.Interrupt, open.InterruptedAt = &contract.Interrupt{Reason: i.Reason}, time.Now().UTC()
		if open.InterruptWaits {
			open.InterruptedAt = open.InterruptedAt.Add(startPatience)
		}
	}
	a.checkpoint.Open.Cut = a.machine.Cut
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}
