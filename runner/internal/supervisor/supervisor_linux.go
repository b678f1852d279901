// Package supervisor is the long-lived half of sojourn-runner: it owns one
// agent process, its spool and its journal, and serves clients on the control
// socket. It outlives the process that started it.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
	"github.com/sojourn-run/sojourn/runner/internal/spool"
	"github.com/sojourn-run/sojourn/runner/internal/transport"
	"github.com/sojourn-run/sojourn/sandbox"
)

// sweepLimit is how long a sweep kills.
const sweepLimit = 5 * time.Second

// Supervisor owns one agent process.
type Supervisor struct {
	spec     runner.StartSpec
	guarded  *Guarded // nil with a namespace
	log      *slog.Logger
	control  *control
	spool    *spool.Spool
	epoch    epoch
	input    *input
	lease    lease
	contact  contact
	link     link
	family   *family
	listener *net.UnixListener

	// predecessorKilled means that the supervisor before this one was killed, and its agent
	// with it.
	predecessorKilled bool
	// damage is what of the control folder could not be read.
	damage []string

	// finished is closed when no process is left and the spool is complete.
	finished chan struct{}
	// leave is closed when the supervisor need not stay for late readers.
	leave     chan struct{}
	leaveOnce sync.Once
	work      sync.WaitGroup // the owner of the agent's end

	mu    sync.Mutex
	saved Saved
	// endedBecause is why the runner itself ended its agent; empty for none.
	endedBecause string
	clients      map[*client]struct{}
	idle         chan struct{} // signalled when the last client leaves
}

// Open takes the control folder over and starts the agent. On an error
// nothing is left running. Without a namespace it wants a guard, see [Guard];
// guarded is nil where there is none.
func Open(spec runner.StartSpec, guarded *Guarded, log *slog.Logger) (*Supervisor, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Isolation.Mode == runner.IsolationNone && guarded == nil {
		return nil, &UnguardedError{Reason: "not wanted"}
	}
	if err := checkKept(spec.Isolation.Keep); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	path, err := findProgram(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	s := &Supervisor{
		spec:     spec,
		guarded:  guarded,
		log:      log,
		finished: make(chan struct{}),
		leave:    make(chan struct{}),
		clients:  map[*client]struct{}{},
		idle:     make(chan struct{}, 1),
	}
	s.link = s.newLink()
	if err := s.takeFolder(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := s.begin(path); err != nil {
		s.giveBack()
		return nil, fmt.Errorf("start: %w", err)
	}
	return s, nil
}

// takeFolder locks the control folder and opens what is in it.
func (s *Supervisor) takeFolder() (err error) {
	// The epoch first: a starter that has been overtaken must not even end
	// the supervisor of a dead agent.
	if err := s.epoch.load(s.spec.Control, s.spec.Epoch); err != nil {
		return err
	}
	if s.control, err = openControl(s.spec.Control); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.giveBack()
		}
	}()
	// Again, now that no other process can raise it.
	if err := s.epoch.load(s.spec.Control, s.spec.Epoch); err != nil {
		return err
	}
	previous, err := ReadSaved(s.spec.Control)
	switch {
	case err == nil:
		s.saved.RestartCount = previous.RestartCount + 1
		s.predecessorKilled = previous.State == runner.AgentRunning
		err = endPrevious(previous)
		if err == nil && s.predecessorKilled {
			err = endStray()
		}
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case errors.Is(err, errSaved):
		// The lock is free, so the supervisor before is dead, and its agent
		// went with it.
		s.predecessorKilled, s.damage, err = true, append(s.damage, err.Error()), nil
	}
	if err != nil {
		return err
	}
	if err := s.epoch.raise(s.control, s.spec.Epoch); err != nil {
		return err
	}
	if err := s.control.reserve(); err != nil {
		return err
	}
	if s.spool, err = spool.Open(filepath.Join(s.spec.Control, "spool"), s.spec.SegmentBytes, s.spec.SpoolFrom); err != nil {
		return err
	}
	if s.input, err = newInput(s); err != nil {
		return err
	}
	s.damage = append(s.damage, s.input.journal.damage...)
	s.saved.RestartCount = max(s.saved.RestartCount, s.input.journal.starts)
	return nil
}

// giveBack undoes takeFolder.
func (s *Supervisor) giveBack() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.input != nil {
		s.input.journal.file.Close()
	}
	if s.spool != nil {
		s.spool.Close()
	}
	if s.control != nil {
		s.control.lock.Close()
	}
}

// checkKept refuses a writable path that leads through a symbolic link: who can
// write beside it could point it at something that is hidden, and kept paths
// win over hidden ones.
func checkKept(kept []string) error {
	for _, path := range kept {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && real != filepath.Clean(path) {
			return fmt.Errorf("field \"isolation.keep\" has %s, which is a symbolic link to %s; want a path without links", path, real)
		}
	}
	return nil
}

// begin starts listening, then the agent, so that a socket that cannot be
// made does not cost a start.
func (s *Supervisor) begin(path string) (err error) {
	if s.listener, err = listen(s.spec.Socket); err != nil {
		return err
	}
	stdio, theirs, err := agentPipes()
	if err != nil {
		return err
	}
	seen := view(s.spec.Isolation)
	for _, program := range append([]string{path}, s.spec.Isolation.Programs...) {
		seen.KeepReadOnly = append(seen.KeepReadOnly, programFolders(program, s.spec.Isolation.Hide)...)
	}
	config := jail.Config{Path: path, Argv: s.spec.Argv, Env: s.agentEnv(), Dir: s.spec.Dir, View: seen}
	helpers := programsBeside(path, s.spec.Helpers) // before the agent could put others there
	s.family, err = start{
		config: config, mode: s.spec.Isolation.Mode, network: s.spec.Isolation.Network, guarded: s.guarded, stdio: theirs, log: s.log,
	}.launch()
	closeAll(theirs[:]...)
	if err != nil {
		closeAll(stdio[:]...)
		return err
	}
	s.family.wrapped, s.family.helpers = len(s.spec.Isolation.Programs) > 0, helpers
	at, err := s.recordStart()
	if err != nil {
		err = errors.Join(err, s.family.kill())
		closeAll(stdio[:]...)
		<-s.family.gone
		return err
	}
	s.contact.renew()
	s.noteStart(at)
	s.own(stdio)
	return nil
}

// agentEnv is the spec's environment, what the transport needs, and the
// sandbox's mark, by which a provider finds what is left of a sandbox even if
// nobody else knows it.
func (s *Supervisor) agentEnv() []string {
	env := slices.Clone(s.spec.Env)
	for _, setting := range s.link.Env() {
		name, _, _ := strings.Cut(setting, "=")
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, setting)
	}
	return marked(env)
}

// marked adds this process's own mark of the sandbox to an environment that has
// none.
func marked(env []string) []string {
	if value := os.Getenv(runner.MarkEnv); value != "" && sandbox.EnvValue(env, runner.MarkEnv) == "" {
		env = append(slices.Clone(env), runner.MarkEnv+"="+value)
	}
	return env
}

// view is what the specification says of the file system.
func view(s runner.IsolationSpec) jail.View {
	return jail.View{Hide: s.Hide, Keep: s.Keep, KeepReadOnly: s.KeepReadOnly}
}

// record spools one line of the supervisor's own.
func (s *Supervisor) record(dir event.Dir, line string) (at int64, err error) {
	at, _, err = s.spool.Append(event.Record{TS: time.Now().UTC(), Dir: dir, Line: line})
	return at, err
}

// recordStart says that an agent's process has begun; before that how the last
// one ended, if its supervisor could not say so any more.
func (s *Supervisor) recordStart() (at int64, err error) {
	if s.predecessorKilled {
		if _, err := s.record(event.DirSig, runner.EndWithRunner); err != nil {
			return 0, err
		}
	}
	return s.record(event.DirSig, "start")
}

func (s *Supervisor) noteStart(at int64) {
	first, end := s.spool.Bounds()
	self, _ := statSelf()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved.Status = runner.Status{
		State:        runner.AgentRunning,
		Epoch:        s.epoch.seen(),
		RestartCount: s.saved.RestartCount,
		Started:      time.Now().UTC(),
		Pid:          s.family.agent.Pid,
		Supervisor:   os.Getpid(),
		Socket:       s.spec.Socket,
		SpoolFirst:   first,
		SpoolEnd:     end,
		StartOffset:  at,
		Isolation:    s.family.isolation,
		Tag:          s.spec.Tag,
		Damage:       s.damage,
		Protocol:     runner.Protocol,
		ProtocolFrom: runner.ProtocolFrom,
	}
	s.saved.SupervisorProcess = self
	s.saved.AgentProcess = s.family.agent
	s.saved.RootProcess = s.family.root
	s.saved.GuardProcess = runner.Process{}
	if s.guarded != nil {
		s.saved.GuardProcess, _ = proc.Stat(os.Getppid())
	}
	s.save()
}

// save is called with the lock held. The file only serves readers from
// outside; the agent must not die because it could not be written.
func (s *Supervisor) save() {
	if err := s.control.write(s.saved); err != nil {
		s.log.Error("status not written", "error", err)
	}
}

// own starts the goroutines that talk to the agent and see its end.
func (s *Supervisor) own(stdio [3]*os.File) {
	host := transport.Host{Keep: s.keep, Inputs: s.input.all, Fail: s.fault, MaxLine: s.spec.MaxLine}
	pipes := transport.Pipes{Stdin: stdio[0], Stdout: stdio[1], Stderr: stdio[2]}
	var talking sync.WaitGroup
	talking.Go(func() { s.link.Serve(host, pipes, s.family.gone) })
	s.work.Go(func() {
		ws := <-s.family.exited
		<-s.family.gone
		s.input.drop()
		// Every writer is dead, so what it said comes to its end.
		talking.Wait()
		s.noteExit(ws)
		close(s.finished)
	})
	for _, d := range s.damage {
		s.log.Warn("control folder is damaged", "what", d)
	}
	s.log.Info("agent started", "pid", s.family.agent.Pid, "isolation", s.family.isolation)
}

// keep spools what was said.
func (s *Supervisor) keep(records ...event.Record) {
	if _, _, err := s.spool.Append(records...); err != nil {
		s.fault(err)
	}
}

// status is how things stand now.
func (s *Supervisor) status() runner.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.saved.Status
	st.Epoch = s.epoch.seen()
	st.SpoolFirst, st.SpoolEnd = s.spool.Bounds()
	st.LeaseUntil = s.lease.deadline()
	if st.State == runner.AgentRunning && st.LeaseUntil.IsZero() {
		st.IdleUntil = time.Now().Add(s.idleLeft()).UTC()
	}
	return st
}

// Status is how runner and agent stand.
func (s *Supervisor) Status() runner.Status { return s.status() }

func (s *Supervisor) exited() bool {
	select {
	case <-s.finished:
		return true
	default:
		return false
	}
}

// stop ends the agent step by step and returns when nothing is left.
func (s *Supervisor) stop(ctx context.Context, grace runner.Grace) error {
	grace = grace.Or(s.spec.Grace)
	if s.link.EndsWithInput() {
		s.input.close()
	} else {
		s.input.drop()
		grace.Stdin = 0
	}
	steps := []struct {
		wait time.Duration
		then func() error
	}{
		{grace.Stdin, s.terminate},
		{grace.Term, s.family.kill},
	}
	for _, step := range steps {
		if s.waitFinished(ctx, step.wait) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := step.then(); err != nil {
			return err
		}
	}
	select {
	case <-s.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// terminate asks the agent to end; one that has ended already is no fault.
func (s *Supervisor) terminate() error {
	if err := s.family.signal(syscall.SIGTERM); !errors.Is(err, runner.ErrExited) {
		return err
	}
	return nil
}

func (s *Supervisor) waitFinished(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-s.finished:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return s.exited()
}

// Run serves clients until the agent has ended and no client needs the
// supervisor any more. When ctx ends the agent is killed, and so it is when its
// folder is removed or no worker returns; see [Supervisor.watchOrphaned].
func (s *Supervisor) Run(ctx context.Context) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	s.work.Go(func() { s.watchOrphaned(ctx, quit) })
	var serving sync.WaitGroup
	serving.Go(s.accept)
	select {
	case <-s.finished:
	case <-ctx.Done():
		_ = s.family.kill()
		<-s.finished
	}
	if ctx.Err() == nil {
		s.lingerFor(ctx)
	}
	quit()
	os.Remove(s.spec.Socket)
	s.listener.Close()
	s.hangUp()
	serving.Wait()
	s.work.Wait()
	s.giveBack()
	return nil
}

// lingerFor stays while clients are attached, and without one until the
// linger time is over or a stop has announced that no client will come.
func (s *Supervisor) lingerFor(ctx context.Context) {
	timer := time.NewTimer(s.spec.Linger)
	defer timer.Stop()
	leave := s.leave
	for {
		select {
		case <-ctx.Done():
			return
		case <-leave:
			leave = nil
			timer.Reset(0)
		case <-s.idle:
			if leave != nil {
				timer.Reset(s.spec.Linger)
				continue
			}
			timer.Reset(0)
		case <-timer.C:
			if s.clientCount() == 0 {
				return
			}
		}
	}
}

// letGo says that the supervisor need not wait for further clients.
func (s *Supervisor) letGo() { s.leaveOnce.Do(func() { close(s.leave) }) }
