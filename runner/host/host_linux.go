package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
	"github.com/sojourn-run/sojourn/runner/internal/supervisor"
)

// grace is how long a supervisor may take to end its agent before it is killed.
const grace = 5 * time.Second

// Look returns the state of a control folder's runner.
func Look(control string) (State, error) {
	saved, err := supervisor.ReadSaved(control)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("runner: look: %w", err)
	}
	alive, err := supervisor.Held(control)
	if err != nil {
		return State{}, fmt.Errorf("runner: look: %w", err)
	}
	return State{Known: true, Status: saved.Status, Alive: alive}, nil
}

// End kills the agent of a control folder, everything below it, and the
// supervisor. A folder without any, or one that can't be read, is not an error.
func End(ctx context.Context, control string) error {
	saved, err := supervisor.ReadSaved(control)
	if err != nil {
		// It names no process. Removing the folder ends its runner, and [EndMarked]
		// finds what carries the sandbox's mark.
		return nil
	}
	// SIGTERM makes the supervisor kill everything and wait until it has ended; a
	// SIGKILL would leave that to the kernel, which is reliable only with a
	// namespace.
	err = endOne(ctx, saved.SupervisorProcess, unix.SIGTERM, grace)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = endOne(ctx, saved.SupervisorProcess, unix.SIGKILL, grace)
	}
	for _, p := range []runner.Process{saved.RootProcess, saved.AgentProcess} {
		err = errors.Join(err, endOne(ctx, p, unix.SIGKILL, grace))
	}
	waiting, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err = errors.Join(err, saved.AwaitWatchdog(waiting))
	if err != nil {
		return fmt.Errorf("runner: end: %w", err)
	}
	return nil
}

func endOne(ctx context.Context, p runner.Process, sig unix.Signal, limit time.Duration) error {
	if p.Pid == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := proc.Signal(p, sig); err != nil {
		return err
	}
	return proc.Wait(ctx, p)
}

// EndMarked kills every process, but this one, whose environment holds the
// setting NAME=value: leftovers of a sandbox's commands.
func EndMarked(setting string) error {
	_, left, err := proc.End(func() ([]runner.Process, error) {
		found, err := proc.WithEnv(setting)
		out := found[:0]
		for _, p := range found {
			if p.Pid != os.Getpid() {
				out = append(out, p)
			}
		}
		return out, err
	}, grace)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("process %d (%s) does not end", left[0].Pid, left[0].Comm)
	}
	if err != nil {
		return fmt.Errorf("runner: end processes of %s: %w", setting, err)
	}
	return nil
}

// Probe asks the runner program how agents can be isolated on this machine.
func Probe(ctx context.Context, program string) (runner.Isolation, error) {
	var i runner.Isolation
	out, err := exec.CommandContext(ctx, program, "probe").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(out, &i)
	}
	if err != nil {
		return i, fmt.Errorf("runner: probe by %s: %w", program, err)
	}
	return i, nil
}
