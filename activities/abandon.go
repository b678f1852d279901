package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// errNeverBegan is of an abandoned execution that the sandbox knows nothing of.
var errNeverBegan = temporal.NewNonRetryableApplicationError("the execution never began in this sandbox", session.TypeNotFound, nil)

// abandon ends the agent of an execution whose session is dead. What it said
// until then is still to be read: it is told as that of any agent that dies.
func (t *turn) abandon(ctx context.Context) error {
	// First of all: it must do nothing more.
	if _, err := t.agent.conn.Stop(ctx, runner.Grace{Stdin: -1}); err != nil && !errors.Is(err, runner.ErrExited) {
		return err
	}
	if err := t.sayBeginning(ctx); err != nil {
		return err
	}
	// The runner knows the prompt and says where it lies, or it was never
	// written, and isn't now.
	err := t.dialogue.Say(ctx, t.promptID(), adapters.Prompt{MessageID: t.in.Message.ID})
	if err != nil {
		t.host.o.Log.Debug("an abandoned message was not asked", "session", t.in.Agent.SessionID, "message", t.in.Message.ID, "error", err)
	}
	return nil
}

// abandoned is how an execution ends that was cut off by the end of its
// session's workflow.
func (t *turn) abandoned(stop string) *ending {
	return &ending{
		outcome: session.Failed, stop: stop, exited: true,
		failure: &event.ErrorInfo{Message: t.in.Abandoned, Code: session.TypeTerminated},
	}
}
