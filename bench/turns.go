package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/opencode"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/internal/turns"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

const (
	// earlyTurn and lateTurn are compared.
	earlyTurn, lateTurn = 20, 1000
	// turnRounds are the turns that are measured at each.
	turnRounds = 16
)

// turnEnd is what a turn's end costs that looks for its answer once.
type turnEnd struct {
	read int64
	// cpu is the processor time of this process and of what it started.
	cpu, took time.Duration
}

// growing is a session that grows turn by turn.
type growing struct {
	name string
	home *readCounter
	// grow writes the n-th turn, and look looks for its answer.
	grow func(n int) error
	look func(n int) (bool, error)
}

// turns measures what Sojourn does at a turn's end to see that the answer is on
// disk, early and late in a session. The homes are written by this program: a
// thousand turns of the agents themselves would take hours.
func (b *bench) turns(ctx context.Context) ([]Figure, error) {
	dir, err := os.MkdirTemp("", "sojourn-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var sessions []growing
	for _, f := range turns.Files() {
		g, err := growingFile(filepath.Join(dir, f.Adapter.Info().Name), f)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, g)
	}
	program, err := filepath.Abs(filepath.Join(b.root, "bin", "sojourn-runner"))
	if err != nil {
		return nil, err
	}
	g, stop, err := growingDatabase(ctx, filepath.Join(dir, "opencode"), program)
	if err != nil {
		return nil, err
	}
	defer stop()
	var figures []Figure
	for _, g := range append(sessions, g) {
		early, late, err := g.measure()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		figures = append(figures, early.against(g.name, late)...)
	}
	return figures, nil
}

// against shows a late turn's end beside an early one's.
func (e turnEnd) against(name string, late turnEnd) []Figure {
	one := func(what string, early, late float64, unit string) Figure {
		f := Figure{Name: fmt.Sprintf("%s: %s at the end of turn %d", name, what, lateTurn), Value: late, Unit: unit}
		return f.over(early, fmt.Sprintf("the same at turn %d", earlyTurn))
	}
	read := one("bytes read", float64(e.read), float64(late.read), "bytes")
	return []Figure{
		read.wants("within 15 %", *read.Ratio <= 1.15),
		one("processor time", e.cpu.Seconds(), late.cpu.Seconds(), "s"),
		one("time", e.took.Seconds(), late.took.Seconds(), "s"),
	}
}

func (g growing) measure() (early, late turnEnd, err error) {
	n := 0
	at := func(last int) (best turnEnd, err error) {
		for ; n < last-turnRounds; n++ {
			if err := g.grow(n + 1); err != nil {
				return best, err
			}
		}
		if _, err := g.look(n); err != nil {
			return best, err
		}
		for ; n < last; n++ {
			end, err := g.turn(n + 1)
			if err != nil {
				return best, err
			}
			if best.took == 0 {
				best = end
			}
			best.read, best.cpu, best.took = max(best.read, end.read), min(best.cpu, end.cpu), min(best.took, end.took)
		}
		return best, nil
	}
	if early, err = at(earlyTurn); err == nil {
		late, err = at(lateTurn)
	}
	return early, late, err
}

func (g growing) turn(n int) (end turnEnd, err error) {
	if err := g.grow(n); err != nil {
		return end, err
	}
	read, used, began := g.home.read, processorTimeOfAll(), time.Now()
	found, err := g.look(n)
	if err == nil && !found {
		err = fmt.Errorf("the answer of turn %d was not found", n)
	}
	return turnEnd{g.home.read - read, processorTimeOfAll() - used, time.Since(began)}, err
}

// processorTimeOfAll is what this process and those that it waited for have used.
func processorTimeOfAll() time.Duration {
	sum := processorTime()
	var children unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		panic(err) // every kernel that Go runs on has it
	}
	return sum + time.Duration(children.Utime.Nano()+children.Stime.Nano())
}

// follower looks by an adapter's Follow.
func follower(a adapters.Adapter, home adapters.Home, l adapters.Launch, answer func(int) string) func(int) (bool, error) {
	var since json.RawMessage
	return func(n int) (found bool, err error) {
		since, err = a.(adapters.Follower).Follow(home, l, since, func(ev event.Event) {
			p, ok := ev.Payload.(event.BlockUpsert)
			found = found || ok && p.Block.ID == answer(n)
		})
		return found, err
	}
}

func growingFile(dir string, f turns.File) (g growing, err error) {
	path := filepath.Join(dir, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return g, err
	}
	if err := os.WriteFile(path, []byte(f.Head), 0o600); err != nil {
		return g, err
	}
	home, err := adapters.OpenHome(dir)
	if err != nil {
		return g, err
	}
	g = growing{name: f.Adapter.Info().Name, home: &readCounter{Home: home}}
	g.look = follower(f.Adapter, g.home, adapters.Launch{SessionID: "s", NativeID: f.NativeID}, f.Answer)
	g.grow = func(n int) error {
		out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, f.Turn(n))
		return errors.Join(err, out.Close())
	}
	return g, nil
}

func growingDatabase(ctx context.Context, dir, program string) (g growing, stop func(), err error) {
	db, err := turns.NewDatabase(ctx, dir)
	if err != nil {
		return g, nil, err
	}
	home, err := adapters.OpenHome(dir)
	if err != nil {
		return g, nil, errors.Join(err, db.Close())
	}
	g = growing{name: opencode.Name, home: &readCounter{Home: home}}
	live := databases{ctx: ctx, readCounter: g.home, dir: dir, program: program}
	g.look = follower(opencode.New(), live, adapters.Launch{}, db.Answer)
	g.grow = func(n int) error { return db.Turn(ctx, n) }
	return g, func() { _ = db.Close() }, nil
}

// readCounter is a home that counts what is read of it.
type readCounter struct {
	adapters.Home
	read int64
}

func (c *readCounter) Open(path string) (io.ReadCloser, error) { return c.counted(c.Home.Open(path)) }

func (c *readCounter) OpenAt(path string, offset int64) (io.ReadCloser, error) {
	return c.counted(c.Home.OpenAt(path, offset))
}

func (c *readCounter) counted(in io.ReadCloser, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return &countedFile{in, c}, nil
}

type countedFile struct {
	io.ReadCloser
	c *readCounter
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.c.read += int64(n)
	return n, err
}

// databases queries databases by the runner, on this machine.
type databases struct {
	*readCounter
	ctx          context.Context
	dir, program string
}

func (d databases) OpenDatabase(path string) (adapters.Database, error) {
	spec := runner.RunSpec{Dir: d.dir, Env: os.Environ(), Isolation: runner.IsolationSpec{Mode: runner.IsolationNone}}
	return runner.OpenDatabase(d.ctx, d, d.program, spec, filepath.Join(d.dir, filepath.FromSlash(path)))
}

// Exec implements runner.Execer.
func (d databases) Exec(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	p := &process{cmd: cmd}
	var errs [3]error
	var out io.ReadCloser
	p.in, errs[0] = cmd.StdinPipe()
	out, errs[1] = cmd.StdoutPipe()
	p.err, errs[2] = cmd.StderrPipe()
	p.out = &countedFile{out, d.readCounter}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(c.Argv, " "), err)
	}
	return p, nil
}

// process is a command on this machine.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	err io.ReadCloser
}

func (p *process) Stdin() io.WriteCloser { return p.in }
func (p *process) Stdout() io.ReadCloser { return p.out }
func (p *process) Stderr() io.ReadCloser { return p.err }
func (p *process) Kill() error           { return p.cmd.Process.Kill() }

// Wait is called when the outputs were read to their end.
func (p *process) Wait(context.Context) (int, error) {
	err := p.cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	return p.cmd.ProcessState.ExitCode(), err
}
