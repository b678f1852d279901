package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

// errPaused and errReset are the errors of an attempt that an operator ended; the next one
// starts when the operator allows it.
var (
	errPaused = temporal.NewApplicationError("the turn was paused; its agent goes on", "Paused")
	errReset  = temporal.NewApplicationError("the turn's activity was reset; its agent goes on", "ActivityReset")
)

// operatorError is the error of an attempt that an operator ended; nil for any other.
func operatorError(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, activity.ErrActivityPaused):
		return errPaused
	case errors.Is(cause, activity.ErrActivityReset):
		return errReset
	}
	return nil
}

// reconcileTerminated starts the cleanup of the session of an attempt that Temporal no
// longer has, if its workflow was ended from outside.
func (h *Host) reconcileTerminated(ctx context.Context, sessionID string) {
	ctx, cancel := context.WithTimeout(ctx, reconcilePatience)
	defer cancel()
	found, err := h.statusOf(ctx, sessionID)
	if err == nil && session.TerminationOf(found.status) != "" {
		err = h.reconcile(ctx, session.TerminatedRun{SessionID: sessionID, RunID: found.run})
	}
	if err != nil {
		h.o.Log.Warn("a session that seems to have been ended is left to the next sweep", "session", sessionID, "error", err)
	}
}
