package activities

import (
	"context"
	"errors"
	"sync/atomic"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// ruined says whether an error means that nobody can go on in the sandbox: what
// says how far its turns have come does not fit what is there, or its runner is
// of a release that this worker can't talk to.
func ruined(err error) bool {
	for _, cause := range []error{host.ErrDamaged, runner.ErrOffset, runner.ErrTrimmed, runner.ErrVersion} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// giveUp ends a ruined sandbox, with everything in it archived, so that the turn
// is resumed in another one. It gives the error that says so; while that can't
// be done it gives one that is tried again.
func (h *Host) giveUp(ctx context.Context, in contract.RunTurnInput, why error) error {
	h.o.Log.Error("a sandbox is given up", "session", in.Agent.SessionID, "sandbox", in.Sandbox.ID, "error", why)
	var show atomic.Pointer[contract.HeartbeatDetails]
	show.Store(&contract.HeartbeatDetails{Phase: "giving up the sandbox: " + turn.Truncate(why.Error(), 300)})
	defer beat(ctx, &show)()
	_, err := h.endSandbox(ctx, contract.EndSandboxInput{Agent: in.Agent, Sandbox: in.Sandbox, Reason: "damaged", LastSeq: in.LastSeq})
	if err != nil {
		return errors.Join(why, err)
	}
	return temporal.NewNonRetryableApplicationError("sandbox "+in.Sandbox.ID+" is given up: "+why.Error(), session.TypeHostLost, nil)
}

// reached is how far the sandbox's spool once came, as checkpoint and stream know.
// What is said with index 0 stands before the next record, which may never have
// been written; all else is of a record that was.
func (a *attempt) reached() int64 {
	from := a.checkpoint.Offset
	if had := a.machine.Had; had != nil && had.Index > 0 {
		from = max(from, had.Offset+1)
	}
	return from
}

// damages are events that say what of the runner's folder could not be read when
// the agent's process was started.
func (a *attempt) damages() (events []event.Event) {
	if !a.agent.fresh {
		return nil
	}
	for _, what := range a.agent.conn.Attached().Damage {
		a.host.o.Log.Error("the runner's folder is damaged", "session", a.in.Agent.SessionID, "sandbox", a.in.Sandbox.ID, "what", what)
		events = append(events, own(event.Log{Level: "warn", Message: "the runner goes on without what it can't read: " + what}))
	}
	return events
}
