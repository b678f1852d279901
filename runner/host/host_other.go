//go:build !linux

package host

import (
	"context"

	"github.com/sojourn-run/sojourn/runner"
)

// Look is for Linux.
func Look(string) (State, error) { return State{}, runner.ErrUnsupported }

// End is for Linux.
func End(context.Context, string) error { return runner.ErrUnsupported }

// EndMarked is for Linux.
func EndMarked(string) error { return runner.ErrUnsupported }

// Probe is for Linux.
func Probe(context.Context, string) (runner.Isolation, error) {
	return runner.Isolation{}, runner.ErrUnsupported
}
