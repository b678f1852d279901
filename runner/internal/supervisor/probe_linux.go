package supervisor

import (
	"context"
	"os"
	"strings"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
)

// Probe finds out how agents can be shut in here, by doing it once.
func Probe(ctx context.Context) (runner.Isolation, error) {
	dir, err := os.MkdirTemp("", "sojourn-probe-")
	if err != nil {
		return runner.Isolation{}, err
	}
	defer os.RemoveAll(dir)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return runner.Isolation{}, err
	}
	defer null.Close()
	self, err := os.Executable()
	if err != nil {
		return runner.Isolation{}, err
	}
	c := jail.Config{Path: self, Argv: []string{"sojourn-runner", "help"}, Dir: "/", View: jail.View{Hide: []string{dir}}}
	f, err := launchInside(c, [3]*os.File{null, null, null})
	if err != nil {
		return runner.Isolation{Reason: strings.TrimPrefix(err.Error(), errSetup.Error()+": ")}, nil
	}
	if !f.wait(ctx) {
		return runner.Isolation{}, ctx.Err()
	}
	return f.isolation, nil
}
