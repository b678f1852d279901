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
	"github.com/sojourn-run/sojourn/event/traffic"
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
	spec           runner.StartSpec
	watched        *Watched // nil if there is a namespace
	log            *slog.Logger
	control        *control
	spool          *spool.Spool
	epoch          epoch
	input          *input
	lease          lease
	contact        contact
	agentTransport agentTransport
	processTree    *processTree
	listener       *net.UnixListener
	tools          *tools // nil if the agent may call none

	// predecessorKilled means that the previous supervisor was killed, and its agent
	// with it.
	predecessorKilled bool
	// damage is what could not be read of the control folder.
	damage []string

	// finished is closed when no process is left and the spool is complete.
	finished chan struct{}
	// leave is closed when the supervisor need not wait for late readers.
	leave     chan struct{}
	leaveOnce sync.Once
	work      sync.WaitGroup // the owner of the agent's end

	keeping sync.Mutex
	unkept  bool // a record of the agent could not be spooled

	mu    sync.Mutex
	saved Saved
	// endedBecause is why the runner itself ended its agent; empty if it did not.
	endedBecause string
	clients      map[*client]struct{}
	idle         chan struct{} // signalled when the last client leaves
}

// Open takes over the control folder and starts the agent. After an error nothing
// is left running. Without a namespace it needs a watchdog, see [Watchdog]; watched is
// nil if there is none.
func Open(spec runner.StartSpec, watched *Watched, log *slog.Logger) (*Supervisor, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Isolation.Mode == runner.IsolationNone && watched == nil {
		return nil, &NoWatchdogError{Reason: "not wanted"}
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
		watched:  watched,
		log:      log,
		finished: make(chan struct{}),
		leave:    make(chan struct{}),
		clients:  map[*client]struct{}{},
		idle:     make(chan struct{}, 1),
	}
	s.agentTransport = s.newTransport()
	if err := s.takeFolder(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := s.begin(path); err != nil {
		s.releaseFolder()
		return nil, fmt.Errorf("start: %w", err)
	}
	return s, nil
}

// takeFolder locks the control folder and opens what is in it.
func (s *Supervisor) takeFolder() (err error) {
	// The epoch first: an outdated starter must not even end the supervisor of a dead
	// agent.
	if err := s.epoch.load(s.spec.Control, s.spec.Epoch); err != nil {
		return err
	}
	if s.control, err = openControl(s.spec.Control); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.releaseFolder()
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
		// The lock is free, so the previous supervisor is dead, and its agent too.
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

// releaseFolder undoes takeFolder.
func (s *Supervisor) releaseFolder() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.tools != nil {
		s.tools.close()
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

// checkKept refuses a writable path that leads through a symbolic link: a process
// that can replace the link could point it at something hidden, and kept paths
// take precedence over hidden ones.
func checkKept(kept []string) error {
	for _, path := range kept {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && real != filepath.Clean(path) {
			return fmt.Errorf("field \"isolation.keep\" has %s, which is a symbolic link to %s; want a path without links", path, real)
		}
	}
	return nil
}

// begin first listens, then starts the agent, so that a socket that cannot be
// made does not cost a start.
func (s *Supervisor) begin(path string) (err error) {
	if s.listener, err = listen(s.spec.Socket); err != nil {
		return err
	}
	if s.tools, err = listenForTools(s.spec.Tools.Socket); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	stdio, theirs, err := agentPipes()
	if err != nil {
		return err
	}
	seen := view(s.spec.Isolation)
	programs := append([]string{path}, s.spec.Isolation.Programs...)
	if s.tools != nil {
		programs, seen.KeepReadOnly = append(programs, s.spec.Tools.Program), append(seen.KeepReadOnly, s.spec.Tools.Socket)
	}
	for _, program := range programs {
		seen.KeepReadOnly = append(seen.KeepReadOnly, programFolders(program, s.spec.Isolation.Hide)...)
	}
	config := jail.Config{Path: path, Argv: s.spec.Argv, Env: s.agentEnv(), Dir: s.spec.Dir, View: seen}
	helpers := programsBeside(path, s.spec.Helpers) // before the agent could put others there
	s.processTree, err = start{
		config: config, mode: s.spec.Isolation.Mode, network: s.spec.Isolation.Network, watched: s.watched, stdio: theirs, log: s.log,
	}.launch()
	closeAll(theirs[:]...)
	if err != nil {
		closeAll(stdio[:]...)
		return err
	}
	s.processTree.wrapped, s.processTree.helpers = len(s.spec.Isolation.Programs) > 0, helpers
	at, err := s.recordStart()
	if err != nil {
		err = errors.Join(err, s.processTree.kill())
		closeAll(stdio[:]...)
		<-s.processTree.gone
		return err
	}
	s.contact.renew()
	s.noteStart(at)
	s.own(stdio)
	return nil
}

// agentEnv is the spec's environment, what the transport needs, and the sandbox's
// mark, by which a provider finds the remains of a sandbox without any other
// record.
func (s *Supervisor) agentEnv() []string {
	env := slices.Clone(s.spec.Env)
	for _, setting := range s.agentTransport.Env() {
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

// view returns the spec's view of the file system.
func view(s runner.IsolationSpec) jail.View {
	return jail.View{Hide: s.Hide, Keep: s.Keep, KeepReadOnly: s.KeepReadOnly}
}

// record spools one line of the supervisor itself.
func (s *Supervisor) record(dir event.Dir, line string) (at int64, err error) {
	at, _, err = s.spool.Append(traffic.Record{TS: time.Now().UTC(), Dir: dir, Line: line})
	return at, err
}

// recordStart records that an agent's process has started; before that, how the
// last one ended, if its supervisor could not record it.
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
		Pid:          s.processTree.agent.Pid,
		Supervisor:   os.Getpid(),
		Socket:       s.spec.Socket,
		SpoolFirst:   first,
		SpoolEnd:     end,
		StartOffset:  at,
		Isolation:    s.processTree.isolation,
		Tag:          s.spec.Tag,
		Damage:       s.damage,
		Protocol:     runner.Protocol,
		ProtocolFrom: runner.ProtocolFrom,
	}
	s.saved.SupervisorProcess = self
	s.saved.AgentProcess = s.processTree.agent
	s.saved.RootProcess = s.processTree.root
	s.saved.WatchdogProcess = runner.Process{}
	if s.watched != nil {
		s.saved.WatchdogProcess, _ = proc.Stat(os.Getppid())
	}
	s.save()
}

// save is called with the lock held. The file only serves readers from outside:
// failing to write it must not end the agent.
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
	talking.Go(func() { s.agentTransport.Serve(host, pipes, s.processTree.gone) })
	s.work.Go(func() {
		ws := <-s.processTree.exited
		<-s.processTree.gone
		s.input.drop()
		// All its writers are dead, so its output ends.
		talking.Wait()
		s.noteExit(ws)
		close(s.finished)
	})
	for _, d := range s.damage {
		s.log.Warn("control folder is damaged", "what", d)
	}
	s.log.Info("agent started", "pid", s.processTree.agent.Pid, "isolation", s.processTree.isolation)
}

// keep spools the agent's records, and none after one that could not be spooled: the
// spool has no gaps. Records may come from several goroutines.
func (s *Supervisor) keep(records ...traffic.Record) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if s.unkept {
		return
	}
	if _, _, err := s.spool.Append(records...); err != nil {
		s.unkept = true
		s.fault(err)
	}
}

// status returns the current status.
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

// Status returns the status of runner and agent.
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
	if s.agentTransport.EndsWithInput() {
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
		{grace.Term, s.processTree.kill},
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

// terminate sends the agent a SIGTERM; one that has already ended is not an
// error.
func (s *Supervisor) terminate() error {
	if err := s.processTree.signal(syscall.SIGTERM); !errors.Is(err, runner.ErrExited) {
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

// Run serves clients until the agent has ended and no client needs the supervisor
// any more. The agent is killed when ctx ends, and when its folder is removed or
// no worker returns; see [Supervisor.watchOrphaned].
func (s *Supervisor) Run(ctx context.Context) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	s.work.Go(func() { s.watchOrphaned(ctx, quit) })
	var serving sync.WaitGroup
	serving.Go(s.accept)
	if s.tools != nil {
		serving.Go(s.tools.serve)
	}
	select {
	case <-s.finished:
	case <-ctx.Done():
		_ = s.processTree.kill()
		<-s.finished
	}
	if ctx.Err() == nil {
		s.lingerFor(ctx)
	}
	quit()
	os.Remove(s.spec.Socket)
	s.listener.Close()
	if s.tools != nil {
		os.Remove(s.spec.Tools.Socket)
		s.tools.close()
	}
	s.hangUp()
	serving.Wait()
	s.work.Wait()
	s.releaseFolder()
	return nil
}

// lingerFor waits while clients are attached, and without one until the linger
// time is over or a stop has announced that no client will follow.
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

// stopLingering announces that no further clients will attach.
func (s *Supervisor) stopLingering() { s.leaveOnce.Do(func() { close(s.leave) }) }
