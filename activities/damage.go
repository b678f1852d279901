package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// unrecoverable reports whether an error means that no attempt can continue in the sandbox:
// checkpoint and spool contradict each other or can't be read, or this worker can't talk to
// its runner's release.
func unrecoverable(err error) bool {
	for _, cause := range []error{host.ErrDamaged, runner.ErrOffset, runner.ErrTrimmed, runner.ErrVersion} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// giveUp ends a sandbox in which no attempt can continue, with everything in it archived,
// so that the turn is resumed in another one. Its error reports that; while the sandbox
// can't be ended, the error is retryable.
func (h *Host) giveUp(ctx context.Context, in contract.RunTurnInput, why error) error {
	h.o.Log.Error("a sandbox is given up", "session", in.Agent.SessionID, "sandbox", in.Sandbox.ID, "error", why)
	defer heartbeat(ctx, "giving up the sandbox: "+brief.Truncate(why.Error(), 300)).stop()
	_, err := h.endSandbox(ctx, contract.EndSandboxInput{Agent: in.Agent, Sandbox: in.Sandbox, Reason: "damaged", LastSeq: in.LastSeq})
	if err != nil {
		return errors.Join(why, err)
	}
	return temporal.NewNonRetryableApplicationError("sandbox "+in.Sandbox.ID+" is given up: "+why.Error(), session.TypeHostLost, nil)
}

// reached returns how far the sandbox's spool came, by checkpoint and stream. Events with
// index 0 precede the next record, which may never be written; all others are of a written
// record.
func (a *attempt) reached() int64 {
	from := a.checkpoint.Offset
	if had := a.machine.Had; had != nil && had.Index > 0 {
		from = max(from, had.Offset+1)
	}
	return from
}

// damages returns events about what could not be read of the runner's folder when the
// agent's process was started.
func (a *attempt) damages() (events []event.Event) {
	if !a.agent.Fresh {
		return nil
	}
	for _, what := range a.agent.Conn.Attached().Damage {
		a.host.o.Log.Error("the runner's folder is damaged", "session", a.in.Agent.SessionID, "sandbox", a.in.Sandbox.ID, "what", what)
		events = append(events, fromServer(event.Log{Level: "warn", Message: "the runner goes on without what it can't read: " + what}))
	}
	return events
}
