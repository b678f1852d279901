package session

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/event"
)

// Errors that a caller may branch on.
var (
	// ErrNotFound: no session with that id ever existed.
	ErrNotFound = errors.New("no such session")
	// ErrNotBegun: nothing is stored of the session yet, because no worker has begun it.
	ErrNotBegun = errors.New("nothing is stored yet: no worker has begun it")
	// ErrClosed: the session is closed. Only Client.Open reopens it.
	ErrClosed = errors.New("session is closed")
	// ErrExists: Client.Create got an id that is taken.
	ErrExists = errors.New("session exists already")
	// ErrRestoreCanceled: ClientOptions.OnBeforeRestore canceled the reopening. The
	// session stays closed.
	ErrRestoreCanceled = errors.New("restore was canceled")
	// ErrBusy: the message required an idle session (BusyReject), or an evict found a
	// turn or a queued message.
	ErrBusy = errors.New("session is busy")
	// ErrPaused: the queued messages don't run, because a limit is reached.
	ErrPaused = errors.New("session is paused")
	// ErrConflict: the message's id was used for another message with another
	// content.
	ErrConflict = errors.New("message id is taken by another message")
	// ErrDepthLimit: the spawning session is MaxDepth levels deep.
	//
	//lint:ignore ST1005 clients of earlier systems of this kind compare this sentence
	ErrDepthLimit = errors.New("Maximum spawn depth (10) exceeded")
	// ErrUnavailable: Temporal, the stream or the archive can't be reached.
	ErrUnavailable = errors.New("not reachable")
	// ErrNoWorker: Temporal is there, and no worker answered in time: none runs, or those
	// that run are busy.
	ErrNoWorker = errors.New("no worker answers")
)

// Error types that cross Temporal, as temporal.ApplicationError types. None
// of them is retried.
const (
	TypeInvalid      = "InvalidInput"
	TypeClosed       = "Closed"
	TypeBusy         = "Busy"
	TypeConflict     = "Conflict"
	TypeDepthLimit   = "DepthLimit"
	TypeAgentMissing = "AgentMissing"
	TypeNotFound     = "NotFound"
	TypeHostLost     = "HostLost"
	TypeAgentFailed  = event.CodeAgentFailed
	TypeFenced       = "Fenced"
	// TypeNoProgress: the agent was silent for so long that its turn was ended.
	TypeNoProgress = event.CodeNoProgress
	// TypeLimit: the session reached a limit; see Options.Limits.
	TypeLimit = event.CodeLimit
	// TypeEffectUnknown: a rule or a person ended a turn that was lost with its host or
	// runner, since the effect of a call is unknown; see Options.UnknownEffects.
	TypeEffectUnknown = event.CodeEffectUnknown
	// TypeMaxTicks: the message had made its maximum of model calls; see Message.MaxTicks.
	TypeMaxTicks = event.CodeMaxTicks
	// TypeNoSlot: a host that took the task of creating a sandbox had no slot for it after
	// all; the task is retried until some host has one.
	TypeNoSlot = "NoSlot"
	// TypeTerminated is the error of messages whose session's workflow was ended from
	// outside.
	TypeTerminated = event.CodeTerminated
)

// InvalidError is bad input: the field, what is wrong, and what is valid. It is returned
// before anything is stored.
type InvalidError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Want   string `json:"want"`
}

// Invalid returns an InvalidError.
func Invalid(field, reason, want string) *InvalidError {
	return &InvalidError{Field: field, Reason: reason, Want: want}
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %s; want %s", e.Field, e.Reason, e.Want)
}

// Hint returns what is valid, for a command line's second line.
func (e *InvalidError) Hint() string { return e.Field + " wants " + e.Want }

// NoMessageError is returned for a message or an execution that the session never had, or has
// dropped. It matches ErrNotFound.
type NoMessageError struct {
	SessionID string
	// ID is what was asked for: a message's, an execution's, or "" for the last execution
	// that has ended.
	ID string
}

func (e *NoMessageError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("session %s: no turn has ended yet", e.SessionID)
	}
	return fmt.Sprintf("session %s: no message or execution %q", e.SessionID, e.ID)
}

// Is reports whether target is ErrNotFound.
func (e *NoMessageError) Is(target error) bool { return target == ErrNotFound }

// Hint returns what is valid, for a command line's second line.
func (e *NoMessageError) Hint() string {
	if e.ID == "" {
		return "send it a message first"
	}
	return fmt.Sprintf("give the id of a message that waits, or of one of the last %d that were answered, or of its execution", KeptResults)
}

// wireTypes maps an error of this package to the type with which it crosses
// Temporal; other errors are not converted.
var wireTypes = []struct {
	err error
	typ string
}{
	{ErrClosed, TypeClosed},
	{ErrBusy, TypeBusy},
	{ErrConflict, TypeConflict},
	{ErrDepthLimit, TypeDepthLimit},
	{ErrNotFound, TypeNotFound},
}

// ToTemporal returns the non-retryable application error for err.
func ToTemporal(err error) error {
	if err == nil {
		return nil
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return temporal.NewNonRetryableApplicationError(invalid.Error(), TypeInvalid, nil, *invalid)
	}
	for _, w := range wireTypes {
		if errors.Is(err, w.err) {
			return temporal.NewNonRetryableApplicationError(err.Error(), w.typ, nil)
		}
	}
	return err
}

// Typed returns an error that wraps an application error, with that one's type: Temporal sees the
// type of an outermost error alone. details are its details. One of TypeInvalid keeps its own, and
// a cancellation is returned as it is.
func Typed(err error, details ...any) error {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case !ok || temporal.IsCanceledError(err):
		return err
	case app.Type() == TypeInvalid:
		return app
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), app.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: app.NonRetryable(), Cause: app, Details: details,
	})
}

// FromTemporal is the inverse of ToTemporal, as far as the type shows.
func FromTemporal(err error) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return err
	}
	if app.Type() == TypeInvalid {
		invalid := &InvalidError{}
		if app.HasDetails() && app.Details(invalid) == nil {
			return invalid
		}
	}
	for _, w := range wireTypes {
		if app.Type() == w.typ {
			return w.err
		}
	}
	return err
}

// fromQuery returns a query handler's error. Its type is in the failure, or only
// in the text if a worker answered the query together with a workflow task (SDK
// v1.50.0, internal_task_handlers.go, completeWorkflow).
func fromQuery(err error) error {
	var refused *serviceerror.QueryFailed
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Failure != nil {
		return temporal.GetDefaultFailureConverter().FailureToError(refused.Failure)
	}
	for _, w := range wireTypes {
		if text, ok := strings.CutSuffix(refused.Message, temporal.NewNonRetryableApplicationError("", w.typ, nil).Error()); ok {
			return temporal.NewNonRetryableApplicationError(text, w.typ, nil)
		}
	}
	return err
}

// Refusal returns how the stream reports an error of a signal, which has no caller to answer.
func Refusal(err error) event.ErrorInfo {
	info := event.ErrorInfo{Message: err.Error(), Code: TypeInvalid}
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		info.Field = invalid.Field
	} else if errors.Is(err, ErrBusy) {
		info.Code, info.Field = TypeBusy, "message.whenBusy"
	} else if errors.Is(err, ErrConflict) {
		info.Code, info.Field = TypeConflict, "message.id"
	}
	return info
}
