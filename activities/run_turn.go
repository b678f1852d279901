package activities

import (
	"cmp"
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/turn"
)

// RunTurn sends the message to the agent and returns when it is answered. It may be retried
// at any point by any worker of the host: what an attempt does is decided from what earlier
// ones have left ([turn.Decide]).
func (h *Host) RunTurn(ctx context.Context, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
	a, err := h.newAttempt(ctx, in)
	if err != nil {
		return contract.RunTurnOutput{}, toApplicationError(err)
	}
	defer h.enter(a)()
	a.showPhase("starting")
	ctx, a.heartbeater = h.Heartbeat(ctx, &a.details)
	defer a.heartbeater.Stop()
	defer a.close()
	out, err := a.carryOut(ctx)
	if err != nil {
		return out, a.leave(ctx, err)
	}
	a.over = true
	a.releaseLease(ctx)
	return out, nil
}

// carryOut decides and carries out plans until there is nothing more to decide.
func (a *attempt) carryOut(ctx context.Context) (contract.RunTurnOutput, error) {
	for {
		plan := turn.Decide(a.facts)
		out, err := a.run(ctx, plan.Kind)
		switch {
		case err == nil && plan.Kind == turn.Read:
		case err != nil && plan.Kind != turn.Replace && a.learn(err):
		default:
			return out, err
		}
	}
}

func (a *attempt) run(ctx context.Context, kind turn.Kind) (contract.RunTurnOutput, error) {
	switch kind {
	case turn.Replace:
		return contract.RunTurnOutput{}, a.host.giveUp(ctx, a.in, a.cause)
	case turn.Answer:
		return *a.checkpoint.Output, nil
	case turn.Forget:
		return contract.RunTurnOutput{}, errNeverBegan
	case turn.Read:
		return contract.RunTurnOutput{}, a.readStream(ctx)
	case turn.Archive:
		return a.archiveLate(ctx)
	case turn.Adopt:
		return a.adopt(ctx)
	case turn.ParkTurn:
		return a.park(ctx)
	}
	if err := a.open(ctx); err != nil {
		return contract.RunTurnOutput{}, err
	}
	begin := a.ask
	switch kind {
	case turn.End:
		begin = a.endTerminated
	case turn.Conclude:
		begin = a.conclude
	}
	if err := begin(ctx); err != nil {
		return contract.RunTurnOutput{}, err
	}
	return a.listen(ctx)
}

// releaseLease takes the agent off its lease, or off that of an earlier attempt: it may wait
// for the next turn, however long that takes.
func (a *attempt) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.AckPatience)
	defer cancel()
	a.heartbeater.Stop()
	if err := a.host.Release(ctx, a.in.Sandbox.ID); err != nil {
		// At worst the lease ends an agent that could have stayed warm.
		a.host.o.Log.Warn("the agent's lease is not taken off", "session", a.in.Agent.SessionID, "error", err)
	}
}

func (a *attempt) close() {
	if a.out == nil {
		return
	}
	if err := a.out.Close(); err != nil {
		a.host.o.Log.Debug("batcher ended", "session", a.in.Agent.SessionID, "error", err)
	}
}

// leave returns an attempt's error after it left its agent running: it keeps the agent of a
// paused turn alive, and starts the cleanup of a terminated session.
func (a *attempt) leave(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), activity.ErrActivityPaused) && a.agent != nil && a.agent.Conn != nil {
		a.host.KeepPaused(a.in.Agent.SessionID, a.agent.Conn)
	}
	var missing *serviceerror.NotFound
	if errors.As(context.Cause(ctx), &missing) {
		a.host.Go(func(ctx context.Context) { a.host.reconcileTerminated(ctx, a.in.Agent.SessionID) })
	}
	return toApplicationError(cmp.Or(operatorError(ctx), err))
}
