package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopPatience is how long a process may take to exit after SIGTERM.
const stopPatience = 90 * time.Second

// look is the interval at which the ready file is looked for.
const look = 10 * time.Millisecond

// Spec is a process to start. Name and Argv are required.
type Spec struct {
	// Name identifies it in errors.
	Name string
	Argv []string
	// Env is added to this process's environment.
	Env []string
	// Dir is its working folder; default: this process's.
	Dir string
	// ReadyFile is a file that appears when the process is ready, ReadyText a text that
	// it prints then. One of them must be set.
	ReadyFile, ReadyText string
}

// Process is a child process that has reported that it is ready. Its methods are safe
// for concurrent use.
type Process struct {
	// Took is how long the process needed until it was ready.
	Took time.Duration

	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

// Spawn starts a process and waits until it is ready. If ctx ends before that, Spawn
// kills it.
func Spawn(ctx context.Context, s Spec) (*Process, error) {
	p := &Process{name: s.Name, cmd: exec.Command(s.Argv[0], s.Argv[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	// It gets a session of its own, as every agent has one: Linux shares the processors out
	// by session first (autogroups). In the tests' session all servers and workers together
	// would get no more than one agent.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	said, readAll := make(chan struct{}), make(chan struct{})
	go func() { p.read(read, s.ReadyText, said); close(readAll) }()
	go func() { p.err = p.cmd.Wait(); write.Close(); <-readAll; close(p.done) }()
	if err := p.await(ctx, s.ReadyFile, said); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	p.Took = time.Since(began)
	return p, nil
}

// await waits until the process is ready.
func (p *Process) await(ctx context.Context, file string, said <-chan struct{}) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-said:
			return nil
		case <-tick.C:
			if _, err := os.Stat(file); err == nil {
				return nil
			}
		case <-p.done:
			return fmt.Errorf("%s ended at once: %w\n%s", p.name, p.err, p.Said())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time\n%s", p.name, p.Said())
		}
	}
}

func (p *Process) read(r io.Reader, ready string, said chan<- struct{}) {
	lines := bufio.NewReader(r)
	told := ready == ""
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.out.WriteString(line)
		p.mu.Unlock()
		if !told && strings.Contains(line, ready) {
			told = true
			close(said)
		}
		if err != nil {
			return
		}
	}
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Said returns what the process has printed so far.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Stop sends SIGTERM and waits. A process that doesn't exit in time is killed, and Stop
// returns an error. It may be called more than once.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopPatience):
		return errors.Join(fmt.Errorf("%s did not end when asked to\n%s", p.name, p.Said()), p.Kill())
	}
}

// Kill sends SIGKILL and waits for the exit.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
