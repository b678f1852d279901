package runner

import (
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

var (
	// ErrEpoch means that a higher epoch has been seen: stop for good.
	ErrEpoch = errors.New("a newer epoch has taken over")
	// ErrToken means that the token is not the one the runner was started with.
	ErrToken = errors.New("wrong token")
	// ErrOffset means that a position is beyond the end of the spool or inside a
	// record.
	ErrOffset = errors.New("no record begins at this offset")
	// ErrTrimmed means that the records at a position have been trimmed.
	ErrTrimmed = errors.New("records before the spool's beginning are gone")
	// ErrExited means that the agent process has ended.
	ErrExited = errors.New("the agent has exited")
	// ErrStdinClosed means that the agent's input was closed.
	ErrStdinClosed = errors.New("the agent's input is closed")
	// ErrBacklog means that the agent does not read its input and too much of it is
	// queued.
	ErrBacklog = errors.New("the agent does not read its input")
	// ErrRunning means that a start was refused because an agent is alive.
	ErrRunning = errors.New("an agent is running already")
	// ErrClosed means that the connection to the runner has ended. The agent may be
	// alive: attach again.
	ErrClosed = errors.New("connection to the runner is closed")
	// ErrDamaged means that the spool's content is not what was written.
	ErrDamaged = wire.ErrDamaged
	// ErrSilent means that a runner ended before it reported whether the agent
	// started: most likely it was killed. It can be started again.
	ErrSilent = errors.New("the supervisor ended without a word")
	// ErrVersion means that runner and client have no version of the protocol in
	// common.
	ErrVersion = errors.New("runner and worker are too far apart in version")
	// ErrUnsupported means that the platform is not Linux.
	ErrUnsupported = errors.New("sojourn-runner runs on Linux only")
)

// sentinels are the errors that travel by name.
var sentinels = map[string]error{
	"epoch":        ErrEpoch,
	"token":        ErrToken,
	"offset":       ErrOffset,
	"trimmed":      ErrTrimmed,
	"exited":       ErrExited,
	"stdin_closed": ErrStdinClosed,
	"backlog":      ErrBacklog,
	"running":      ErrRunning,
	"version":      ErrVersion,
	"silent":       ErrSilent,
}

// EncodeError returns the form in which an error travels to a client, the
// sentinels of this package by name.
func EncodeError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	for code, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return &wire.Error{Code: code, Message: err.Error()}
		}
	}
	return &wire.Error{Message: err.Error()}
}

// DecodeError is the inverse; the result matches the sentinel again.
func DecodeError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	sentinel, known := sentinels[e.Code]
	if !known {
		return errors.New(e.Message)
	}
	return &remoteError{sentinel, e.Message}
}

type remoteError struct {
	sentinel error
	message  string
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.sentinel }

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("runner: %s: %w", op, err)
}
