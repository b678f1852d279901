package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/sojourn-run/sojourn/sandbox"
)

// Exec starts a command; see [sandbox.Sandbox].
func (b *box) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	if len(cmd.Argv) == 0 {
		return nil, fmt.Errorf("sandbox %s: exec: field Argv is empty", b.record.ID)
	}
	if !b.exists() {
		return nil, fmt.Errorf("sandbox %s: exec: %w", b.record.ID, sandbox.ErrTerminated)
	}
	p, err := b.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: exec %s: %w", b.record.ID, cmd.Argv[0], err)
	}
	return p, nil
}

func (b *box) start(ctx context.Context, cmd sandbox.Command) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	paths := b.paths()
	env := sandbox.MergeEnv(b.env(paths), cmd.Env)
	path := cmd.Argv[0]
	if !strings.Contains(path, "/") {
		var err error
		if path, err = sandbox.LookPath(path, sandbox.EnvValue(env, "PATH")); err != nil {
			return nil, fmt.Errorf("not in PATH: %w", err)
		}
	}
	dir := cmd.Dir
	if dir == "" {
		dir = paths.Workspace
	}
	c := &exec.Cmd{
		Path: path, Args: cmd.Argv, Env: env, Dir: dir,
		// A signal to the worker's process group is not for the sandbox.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	return run(ctx, c)
}

// process is one running command.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	done           chan struct{} // closed when it has ended and was reaped
	cancel         func() bool

	mu    sync.Mutex
	ended bool
	code  int
}

var _ sandbox.Process = (*process)(nil)

func run(ctx context.Context, c *exec.Cmd) (*process, error) {
	p := &process{cmd: c, done: make(chan struct{})}
	theirs, err := p.pipes()
	if err != nil {
		return nil, err
	}
	c.Stdin, c.Stdout, c.Stderr = theirs[0], theirs[1], theirs[2]
	err = c.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, p.stdin.Close(), p.stdout.Close(), p.stderr.Close())
	}
	p.cancel = context.AfterFunc(ctx, func() { _ = p.Kill() })
	go p.reap()
	return p, nil
}

// pipes makes the pipes here and not in exec, since Wait closes exec's pipes
// while they are being read.
func (p *process) pipes() (theirs [3]*os.File, err error) {
	var errs [3]error
	theirs[0], p.stdin, errs[0] = os.Pipe()
	p.stdout, theirs[1], errs[1] = os.Pipe()
	p.stderr, theirs[2], errs[2] = os.Pipe()
	if err = errors.Join(errs[:]...); err != nil {
		for _, f := range append(theirs[:], p.stdin, p.stdout, p.stderr) {
			if f != nil {
				f.Close()
			}
		}
	}
	return theirs, err
}

func (p *process) reap() {
	_ = p.cmd.Wait() // its result is in ProcessState
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.code = exitCode(p.cmd.ProcessState)
	close(p.done)
}

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return 1
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.ReadCloser { return p.stdout }
func (p *process) Stderr() io.ReadCloser { return p.stderr }

func (p *process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Kill ends the command and its process group.
func (p *process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	// The leader is not reaped before the lock is free, unless Wait has just
	// returned: then the group is empty or still its own.
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
