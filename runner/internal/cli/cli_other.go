//go:build !linux

// Package cli is the command line of sojourn-runner.
package cli

import (
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/runner"
)

// Run says that this platform is not served.
func Run(_ []string, _ io.Reader, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "sojourn-runner: %v\n", runner.ErrUnsupported)
	return 1
}
