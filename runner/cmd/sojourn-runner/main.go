// Command sojourn-runner owns an agent process inside a sandbox and outlives
// the worker that started it. It is a static program: a provider copies it
// into the sandbox and runs it there. See `sojourn-runner help`.
package main

import (
	"os"

	"github.com/sojourn-run/sojourn/runner/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
