package launch

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes of the program. Scripts rely on them.
const (
	// ExitOK: the stack ended in order, also after SIGINT and SIGTERM.
	ExitOK = 0
	// ExitFailed: the stack could not start, or failed.
	ExitFailed = 1
	// ExitUsage: the command line is wrong.
	ExitUsage = 2
)

// Error is a failure that the user can fix.
type Error struct {
	// Err is what is wrong. Required.
	Err error
	// Hint is what to do about it. Empty prints no hint line.
	Hint string
	// Code is the exit code, [ExitFailed] or [ExitUsage].
	Code int
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failed(hint, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Code: ExitFailed}
}

func misused(hint, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Code: ExitUsage}
}

// PrintError writes err to w as one line, with a hint line below it if err is or
// wraps an [*Error] that has one, and returns the exit code: [ExitFailed] unless
// err is an [*Error] with another.
func PrintError(w io.Writer, err error) int {
	// Embedded servers join their errors with newlines; scripts expect one line.
	fmt.Fprintf(w, "%s: %s\n", Program, strings.ReplaceAll(err.Error(), "\n", "; "))
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return ExitFailed
	}
	if e.Hint != "" {
		fmt.Fprintf(w, "%s: hint: %s\n", Program, e.Hint)
	}
	return e.Code
}
