//go:build !linux

// Package cli is the command line of sojourn-runner.
package cli

import (
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/runner"
)

// Run reports that this platform is not supported.
func Run(_ []string, _ io.Reader, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "sojourn-runner: %v\n", runner.ErrUnsupported)
	return 1
}
