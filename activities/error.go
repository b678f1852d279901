package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// typed are the errors that must not be retried, and their types across Temporal. All
// others are retried.
var typed = []struct {
	err error
	typ string
}{
	{adapters.ErrNotInstalled, session.TypeAgentMissing},
	{adapters.ErrUnknownAgent, session.TypeInvalid},
	{adapters.ErrUnsupported, session.TypeInvalid},
	{stream.ErrFenced, session.TypeFenced},
	{errAhead, session.TypeFenced},
	{archive.ErrFenced, session.TypeFenced},
	{runner.ErrEpoch, session.TypeFenced},
	{sandbox.ErrNotFound, session.TypeHostLost},
	{sandbox.ErrTerminated, session.TypeHostLost},
	{stream.ErrEvent, session.TypeAgentFailed},
	{runner.ErrOffset, session.TypeAgentFailed},
	{runner.ErrTrimmed, session.TypeAgentFailed},
	{runner.ErrStdinClosed, session.TypeAgentFailed},
	{host.ErrProfile, session.TypeNotFound},
	{host.ErrAgent, session.TypeAgentFailed},
}

// toApplicationError returns an activity's error in the form in which it crosses Temporal.
func toApplicationError(err error) error {
	var app *temporal.ApplicationError
	var invalid *session.InvalidError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &app):
		return typedAs(app, err)
	case errors.As(err, &invalid):
		return session.ToTemporal(err)
	}
	for _, t := range typed {
		if errors.Is(err, t.err) {
			return temporal.NewNonRetryableApplicationError(err.Error(), t.typ, nil)
		}
	}
	return err
}

// typedAs returns err with the type of app, which is in it: Temporal sees the type of an outermost
// error alone, and would try again what is wrapped or joined.
func typedAs(app *temporal.ApplicationError, err error) error {
	if err == error(app) {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), app.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: app.NonRetryable(), NextRetryDelay: app.NextRetryDelay(), Category: app.Category(), Cause: app,
	})
}

// errAhead is the error for a run that was reset and whose stream has more than it knows.
var errAhead = errors.New("the session has come further than its workflow, which was reset")
