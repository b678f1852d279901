package activities

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// attempt is one attempt at one execution: the I/O around package turn, which
// decides. One goroutine carries it out.
type attempt struct {
	host  *Host
	in    contract.RunTurnInput
	began time.Time
	// fence is this attempt's right to write, and again reports whether there may have
	// been attempts before it.
	fence stream.Fence
	again bool
	// facts are what is known before a plan; cause is the error that Damage or
	// Unstartable or Ahead has in words.
	facts      turn.Facts
	cause      error
	checkpoint host.Checkpoint

	adapter  adapters.Adapter
	agent    *host.Agent
	dialogue *adapters.Dialogue
	// held reports whether records of an earlier process of the agent are still to be
	// read.
	held    bool
	machine *turn.Machine
	writer  *stream.Writer
	out     *stream.Batcher
	history *history

	archiver *archiver
	// behind says what could not be archived yet.
	behind   string
	controls chan control
	left     chan struct{}
	// details are what the heartbeat shows.
	details     atomic.Pointer[contract.HeartbeatDetails]
	heartbeater *host.Heartbeater
}

// RunTurn hands the message to the agent and stays until it is answered. It may be
// attempted again at any point by any worker of the host: what an attempt does is
// decided from what those before have left ([turn.Decide]).
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
	a.releaseLease(ctx)
	return out, nil
}

// newAttempt collects the facts that this host has.
func (h *Host) newAttempt(ctx context.Context, in contract.RunTurnInput) (*attempt, error) {
	if in.Continues {
		if err := h.awaitPredecessor(ctx, in.Agent.SessionID); err != nil {
			return nil, err
		}
	}
	number := int(activity.GetInfo(ctx).Attempt)
	again := in.Continues || number > 1
	why := "" // the session's workflow is open
	if in.Terminated != "" {
		why = in.Terminated.Sentence()
	}
	a := &attempt{
		host: h, in: in, began: time.Now(), again: again,
		controls: make(chan control), left: make(chan struct{}),
		fence: stream.Fence{Epoch: in.Sandbox.Epoch, Attempt: attemptOf(in.Turn, number)},
		facts: turn.Facts{
			ExecutionID: in.ExecutionID, MessageID: in.Message.ID, Terminated: why, HostLost: in.Resumes != nil,
		},
	}
	a.machine = turn.NewMachine(turn.Config{
		ExecutionID: in.ExecutionID, Terminated: why, Began: a.began,
		Patience: cmp.Or(time.Duration(in.NoProgressMS)*time.Millisecond, session.DefaultNoProgress),
	}, in.Anchor)
	a.machine.TellAnyway, a.machine.HasServer = again, again
	var err error
	if a.adapter, err = h.o.Agents.Get(in.Agent.Name); err != nil {
		return nil, err
	}
	if a.checkpoint, err = h.settledCheckpoint(ctx, in); err != nil && !a.learn(err) {
		return nil, err
	}
	a.facts.Checkpoint = a.checkpoint.Facts()
	return a, nil
}

// attemptOf orders the attempts of all turns of an epoch: fences must grow across
// turns too. It is the turn that counts and not the execution's id, which was given
// out when the message came: one may go before others.
func attemptOf(turn, attempt int) int { return turn*attemptsOfTurn + attempt }

const attemptsOfTurn = 1_000_000

// turnOf is the turn that an attempt is of.
func turnOf(attempt int) int { return attempt / attemptsOfTurn }

// carryOut decides and does what was decided, until there is nothing more to decide.
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

// learn takes an error as a fact, and reports whether another plan follows from it.
func (a *attempt) learn(err error) bool {
	switch {
	case unrecoverable(err):
		a.facts.Damage = err.Error()
	case errors.Is(err, host.ErrAgent), errors.Is(err, adapters.ErrNotInstalled):
		a.facts.Unstartable = err.Error()
	default:
		return false
	}
	if a.cause != nil {
		return false
	}
	a.facts.Checkpoint = a.checkpoint.Facts()
	if turn.Decide(a.facts).Kind != turn.Replace {
		return false
	}
	a.cause = err
	return true
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

// releaseLease takes the agent off its lease: it waits for the next turn, however
// long that takes.
func (a *attempt) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.AckPatience)
	defer cancel()
	if err := a.heartbeater.Release(ctx); err != nil {
		// The lease ends an agent that could have stayed warm, and no more.
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
