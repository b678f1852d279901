package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Check runs a command in a sandbox, isolated like its agent. That it fails is no error.
func (h *Host) Check(ctx context.Context, in contract.CheckInput) (contract.CheckOutput, error) {
	defer heartbeat(ctx, "running a check").stop()
	defer h.BeginCheck(in.Sandbox.ID)()
	out, err := h.check(ctx, in)
	return out, toApplicationError(err)
}

func (h *Host) check(ctx context.Context, in contract.CheckInput) (contract.CheckOutput, error) {
	sb, err := h.o.Provider.Open(ctx, in.Sandbox.ID)
	if err != nil {
		return contract.CheckOutput{}, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return contract.CheckOutput{}, err
	}
	bound := time.Duration(in.TimeoutMS) * time.Millisecond
	timed, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err = runner.Run(timed, sb, info.Paths.Runner, runner.RunSpec{
		// All that it writes is of interest, and only stderr is kept.
		Argv: []string{"sh", "-c", "exec >&2\n" + in.Command},
		Env:  info.Env, Dir: info.Paths.Workspace, Isolation: host.Isolation(info.Paths),
	})
	exit, ended := errors.AsType[*runner.ExitError](err)
	switch {
	case ended:
		// A failure may be the end of the sandbox, which kills the command before it is gone itself.
		if h.isEnding(in.Sandbox.ID) {
			return contract.CheckOutput{}, fmt.Errorf("sandbox %s: %w", in.Sandbox.ID, sandbox.ErrTerminated)
		}
		if _, err := h.o.Provider.Open(ctx, in.Sandbox.ID); err != nil {
			return contract.CheckOutput{}, err
		}
		return contract.CheckOutput{Code: exit.Code, Output: exit.Stderr}, nil
	case err != nil && timed.Err() != nil && ctx.Err() == nil:
		return contract.CheckOutput{Code: contract.CheckTimedOut, Output: fmt.Sprintf("it did not end within %s", bound)}, nil
	}
	return contract.CheckOutput{}, err
}
