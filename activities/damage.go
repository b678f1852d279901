package activities

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// errBookmark means that a bookmark can be read from disk and says nothing.
var errBookmark = errors.New("the bookmark is damaged")

// ruined says whether an error means that nobody can go on in the sandbox: what
// says how far its turns have come does not fit what is there, or its runner is
// of a release that this worker can't talk to.
func ruined(err error) bool {
	for _, cause := range []error{errBookmark, runner.ErrOffset, runner.ErrTrimmed, runner.ErrVersion} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// stranded says whether an error means that a turn can't go on in its sandbox
// though it was begun there: its agent is gone and can't be started again.
// Elsewhere it may be; if not, the turn fails there and says what was lost.
func (t *turn) stranded(err error) bool {
	gone := errors.Is(err, errAgent) || errors.Is(err, adapters.ErrNotInstalled)
	return gone && t.in.Abandoned == "" && t.mark.begun(t.in)
}

// giveUp ends a ruined sandbox, with everything in it archived, so that the turn
// is resumed in another one. It gives the error that says so; while that can't
// be done it gives one that is tried again.
func (h *Host) giveUp(ctx context.Context, in RunTurnInput, why error) error {
	h.o.Log.Error("a sandbox is given up", "session", in.Agent.SessionID, "sandbox", in.Sandbox.ID, "error", why)
	var show atomic.Pointer[Beat]
	show.Store(&Beat{Phase: "giving up the sandbox: " + cut(why.Error(), 300)})
	defer beat(ctx, &show)()
	_, err := h.endSandbox(ctx, EndSandboxInput{Agent: in.Agent, Sandbox: in.Sandbox, Reason: "damaged", LastSeq: in.LastSeq})
	if err != nil {
		return errors.Join(why, err)
	}
	return temporal.NewNonRetryableApplicationError("sandbox "+in.Sandbox.ID+" is given up: "+why.Error(), session.TypeHostLost, nil)
}

// indexDamaged is of the one event of a record that can't be read.
const indexDamaged = 1

// leftOut says in the conversation, once, that a part of the spool can't be
// read. The agent goes on, and so does the turn.
func (t *turn) leftOut(ctx context.Context, d runner.Delivery, why error) error {
	t.host.o.Log.Error("a part of the spool is left out", "session", t.in.Agent.SessionID, "sandbox", t.in.Sandbox.ID, "error", why)
	t.owned, t.next = true, d.Next
	return t.say(ctx, d.Offset, indexDamaged, own(event.BlockUpsert{Block: event.Block{
		ID:   fmt.Sprintf("sojourn-%s-damaged-%d", t.in.Sandbox.ID, d.Offset),
		Type: event.BlockSystem, Status: event.StatusComplete, Source: event.SourceServer, Subtype: "damaged",
		Message: event.Text("a part of what the agent said is left out, as it can't be read: " + why.Error()),
	}}))
}

// reached is how far the sandbox's spool once came, as bookmark and stream know.
// What is said with index 0 stands before the next record, which may never have
// been written; all else is of a record that was.
func (t *turn) reached() int64 {
	from := t.mark.Offset
	if t.had.Epoch == t.in.Sandbox.Epoch && t.had.Index > 0 {
		from = max(from, t.had.Offset+1)
	}
	return from
}

// damages are events that say what of the runner's folder could not be read when
// the agent's process was started.
func (t *turn) damages() (events []event.Event) {
	if !t.agent.fresh {
		return nil
	}
	for _, what := range t.agent.conn.Attached().Damage {
		t.host.o.Log.Error("the runner's folder is damaged", "session", t.in.Agent.SessionID, "sandbox", t.in.Sandbox.ID, "what", what)
		events = append(events, own(event.Log{Level: "warn", Message: "the runner goes on without what it can't read: " + what}))
	}
	return events
}
