package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
)

// Run runs a command to its end, isolated like an agent, and returns its exit
// code when all its processes have ended.
func Run(ctx context.Context, spec runner.RunSpec, stdio [3]*os.File) (int, error) {
	if err := spec.Validate(); err != nil {
		return 0, err
	}
	if err := checkKept(spec.Isolation.Keep); err != nil {
		return 0, fmt.Errorf("run: %w", err)
	}
	path, err := findProgram(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return 0, fmt.Errorf("run: %w", err)
	}
	c := jail.Config{Path: path, Argv: spec.Argv, Env: marked(spec.Env), Dir: spec.Dir, View: view(spec.Isolation)}
	log := slog.New(slog.DiscardHandler)
	f, err := start{config: c, mode: spec.Isolation.Mode, network: spec.Isolation.Network, stdio: stdio, log: log}.launchHere()
	if err != nil {
		return 0, fmt.Errorf("run: %w", err)
	}
	var ws syscall.WaitStatus
	select {
	case ws = <-f.exited:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), f.kill())
		ws = <-f.exited
	}
	<-f.gone
	_, code, _ := describe(ws)
	return code, err
}

// launchHere starts a command that needs no watchdog, since it holds no lease: if
// there are no namespaces and none are required, this process is its subreaper.
func (s start) launchHere() (*processTree, error) {
	if s.mode == runner.IsolationNone {
		return launchPlain(s.config, s.stdio, "not wanted")
	}
	f, err := s.launch()
	if without, ok := errors.AsType[*NoWatchdogError](err); ok {
		return launchPlain(s.config, s.stdio, without.Reason)
	}
	return f, err
}
