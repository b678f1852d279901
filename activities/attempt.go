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
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// attempt is one attempt at one execution: the I/O around package turn, which decides. One
// goroutine runs it.
type attempt struct {
	host  *Host
	in    contract.RunTurnInput
	began time.Time
	// scheduled names the activity, whose attempts have the same input; it had waited and
	// worked for so long when this attempt began.
	scheduled string
	waited    time.Duration
	// fence is this attempt's right to write; again reports whether there may have been
	// earlier attempts.
	fence stream.Fence
	again bool
	// facts are what is known before a plan; cause is the error whose text is in Damage,
	// Unstartable or Ahead.
	facts      turn.Facts
	cause      error
	checkpoint host.Checkpoint

	adapter  adapters.Adapter
	agent    *host.Agent
	dialogue *adapters.Dialogue
	// held reports whether records of an earlier process of the agent are still unread.
	held    bool
	machine *turn.Machine
	writer  *stream.Writer
	out     *stream.Batcher
	stored  storedEvents
	history *history

	archiver *archiver
	// behind describes what of the conversation could not be archived yet, notKept what of the
	// workspace is not.
	behind   string
	notKept  string
	controls chan control
	// follows reports whether an earlier attempt has begun the execution in this sandbox.
	follows bool
	// postponed are controls that wait, see takeControl.
	postponed []control
	// left is closed when the attempt has left; over is set before if the turn needs no other.
	left chan struct{}
	over bool
	// answered reports whether the agent's transcripts have the turn's answer.
	answered bool
	// unbilled are the blocks that were streamed without what they took, by id.
	unbilled map[string]bool
	// details are what the heartbeat shows.
	details     atomic.Pointer[contract.HeartbeatDetails]
	heartbeater *host.Heartbeater
}

// newAttempt collects the facts that this host has.
func (h *Host) newAttempt(ctx context.Context, in contract.RunTurnInput) (*attempt, error) {
	if in.Continues {
		if err := h.awaitPredecessor(ctx, in.Agent.SessionID); err != nil {
			return nil, err
		}
	}
	info := activity.GetInfo(ctx)
	number := int(info.Attempt)
	again := in.Continues || number > 1
	why := "" // the session's workflow is open
	if in.Terminated != "" {
		why = in.Terminated.Sentence()
	}
	a := &attempt{
		host: h, in: in, again: again,
		began: time.Now(), waited: time.Since(info.ScheduledTime), scheduled: info.WorkflowExecution.RunID + "/" + info.ActivityID,
		controls: make(chan control), left: make(chan struct{}), unbilled: map[string]bool{},
		fence: stream.Fence{Epoch: in.Sandbox.Epoch, Attempt: attemptOf(in.Turn, number)},
		facts: turn.Facts{
			ExecutionID: in.ExecutionID, MessageID: in.Message.ID, Terminated: why, HostLost: in.Resumes != nil,
		},
	}
	a.machine = turn.NewMachine(turn.Config{
		ExecutionID: in.ExecutionID, Terminated: why, Began: a.began, MaxTicks: in.MaxTicks,
		Patience: cmp.Or(time.Duration(in.NoProgressMS)*time.Millisecond, session.DefaultNoProgress),
	}, in.Anchor)
	if in.Resumes != nil {
		a.machine.TicksBefore = in.Resumes.Ticks
	}
	a.machine.ReportAnyway, a.machine.HasServer = again, again
	var err error
	if a.adapter, err = h.o.Agents.Get(in.Agent.Name); err != nil {
		return nil, err
	}
	can := a.adapter.Info().Capabilities
	a.machine.Steers = can.Steer
	if !can.Cost {
		a.machine.Prices.Table = h.o.Prices
	}
	if a.checkpoint, err = h.settledCheckpoint(ctx, in); err != nil && !a.learn(err) {
		return nil, err
	}
	a.bind(in.Bounds)
	if o := a.checkpoint.Open; a.checkpoint.Began(in) && o.BoundsOf == a.scheduled {
		a.bind(o.Bounds)
	}
	a.facts.Checkpoint = a.checkpoint.Facts()
	return a, nil
}

// bind has the turn keep to bounds of its session.
func (a *attempt) bind(b contract.Bounds) {
	a.machine.Limits, a.machine.Used = b.Limits, b.Used.Add(event.Usage{}, nil, a.waited)
}

// attemptOf orders the attempts of all turns of an epoch: fences must grow across turns
// too. It uses the turn's number, not the execution's id: ids are assigned when messages
// arrive, and messages may be reordered.
func attemptOf(turn, attempt int) int { return turn*attemptsOfTurn + attempt }

const attemptsOfTurn = 1_000_000

// turnOf returns the turn of an attempt.
func turnOf(attempt int) int { return attempt / attemptsOfTurn }

// learn stores an error as a fact, and reports whether it calls for another plan.
func (a *attempt) learn(err error) bool {
	switch {
	case errors.Is(err, errParks):
		a.facts.Checkpoint = a.checkpoint.Facts()
		return true
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
