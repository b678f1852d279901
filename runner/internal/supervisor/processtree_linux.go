package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/network"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
	"github.com/sojourn-run/sojourn/sandbox"
)

// processTree is the agent and everything below it.
type processTree struct {
	// root is the process whose death ends all others: the namespace's init, else the
	// agent.
	root, agent runner.Process
	isolation   runner.Isolation
	// wrapped: direct children of the agent's process are the agent too.
	wrapped bool
	// door is the way out of the agent's network namespace; nil if it has none.
	door *network.Door
	// helpers are programs that the agent's process starts for itself.
	helpers []os.FileInfo
	// exited carries the agent's wait status, once; gone is closed when no
	// process is left.
	exited chan syscall.WaitStatus
	gone   chan struct{}
}

// errSetup marks a failure of the namespace rather than of the agent.
var errSetup = errors.New("no namespace")

// start is what to launch.
type start struct {
	config  jail.Config
	mode    runner.IsolationMode
	network sandbox.Network
	watched *Watched // nil if there is a namespace
	stdio   [3]*os.File
	log     *slog.Logger
}

// launch starts the agent, isolated as far as specified and possible. One whose
// network is guarded is never started without its namespace.
func (s start) launch() (*processTree, error) {
	if s.watched != nil {
		return launchPlain(s.config, s.stdio, s.watched.Reason)
	}
	f, err := s.inside()
	if errors.Is(err, errSetup) && s.mode == runner.IsolationAuto && !s.network.Guarded() {
		return nil, &NoWatchdogError{Reason: err.Error()}
	}
	return f, err
}

// fork runs start on a new thread, which then waits for all children until there
// are none. The thread must live that long: the parent-death signal is sent when
// the forking thread dies, not when the process does.
func fork(start func() (int, error), reaped func(pid int, ws syscall.WaitStatus)) (int, <-chan struct{}, error) {
	type result struct {
		pid int
		err error
	}
	forked, gone := make(chan result, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(gone)
		pid, err := start()
		forked <- result{pid, err}
		if err == nil {
			waitAll(reaped)
		}
	}()
	r := <-forked
	return r.pid, gone, r.err
}

func waitAll(reaped func(pid int, ws syscall.WaitStatus)) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			return
		}
		if err == nil {
			reaped(pid, ws)
		}
	}
}

// launchPlain starts the agent below this process, which adopts its orphans.
func launchPlain(c jail.Config, stdio [3]*os.File, reason string) (*processTree, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	f := &processTree{
		isolation: runner.Isolation{Reason: reason},
		exited:    make(chan syscall.WaitStatus, 1),
		gone:      make(chan struct{}),
	}
	var agent int
	var sweep sync.WaitGroup
	pid, gone, err := fork(func() (pid int, err error) {
		agent, err = jail.Spawn(c.Path, c.Argv, c.Env, c.Dir, fds(stdio[:]))
		return agent, err
	}, func(pid int, ws syscall.WaitStatus) {
		if pid == agent {
			f.exited <- ws
			// Its orphans end with it, as in a namespace.
			sweep.Go(func() { _, _, _ = proc.End(belowSelf, time.Minute) })
		}
	})
	if err != nil {
		return nil, err
	}
	go func() { <-gone; sweep.Wait(); close(f.gone) }()
	// An agent that has already ended has no stat; its wait status follows.
	if f.agent, err = proc.Stat(pid); err != nil {
		f.agent = runner.Process{Pid: pid}
	}
	f.root = f.agent
	return f, nil
}

func belowSelf() ([]runner.Process, error) { return proc.Below(os.Getpid()) }

// inside starts the agent in its own namespaces.
func (s start) inside() (*processTree, error) {
	f := &processTree{
		isolation: runner.Isolation{PID: true, Mount: true, User: os.Geteuid() != 0, Network: s.network.Guarded()},
		exited:    make(chan syscall.WaitStatus, 1),
		gone:      make(chan struct{}),
	}
	ours, theirs, err := pipes()
	if err != nil {
		return nil, err
	}
	files := append(s.stdio[:], theirs[:]...)
	given := theirs[:]
	if s.network.Guarded() {
		door, inside, socket, err := network.New(s.network, s.log)
		if err != nil {
			closeAll(append(given, ours[:]...)...)
			return nil, fmt.Errorf("%w: %w", errSetup, err)
		}
		f.door, s.config.Network = door, &inside
		files, given = append(files, socket), append(given, socket)
	}
	attr := &syscall.ProcAttr{Dir: "/", Files: fds(files), Sys: namespaces(s.network.Guarded())}
	pid, gone, err := fork(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", []string{"sojourn-runner", "init"}, attr)
	}, func(int, syscall.WaitStatus) {})
	closeAll(given...)
	if err != nil {
		closeAll(ours[:]...)
		f.closeDoor()
		return nil, fmt.Errorf("%w: %w", errSetup, err)
	}
	reports, err := f.begin(pid, s.config, ours)
	if err != nil {
		// An init that could not start ends by itself, or when it loses its pipe.
		closeAll(ours[:]...)
		_ = unix.Kill(pid, unix.SIGKILL)
		<-gone
		f.closeDoor()
		return nil, err
	}
	go f.follow(ours[1], reports, gone)
	return f, nil
}

func (f *processTree) closeDoor() {
	if f.door != nil {
		f.door.Close()
	}
}

// begin sends the init process the command to run and reads the agent's identity.
func (f *processTree) begin(pid int, c jail.Config, ours [2]*os.File) (*json.Decoder, error) {
	var err error
	if f.root, err = proc.Stat(pid); err != nil {
		return nil, err
	}
	// A pipe holds 64 KiB; the init process reads while this writes.
	werr := json.NewEncoder(ours[0]).Encode(c)
	ours[0].Close()
	if f.door != nil {
		// When it fails, init's report has the reason.
		werr = errors.Join(werr, f.door.Open())
	}
	reports := json.NewDecoder(ours[1])
	var first jail.Report
	if err := reports.Decode(&first); err != nil {
		return nil, fmt.Errorf("%w: init process: %w", errSetup, errors.Join(err, werr))
	}
	if first.Error != "" && first.Setup {
		return nil, fmt.Errorf("%w: %s", errSetup, first.Error)
	}
	if first.Error != "" {
		return nil, errors.New(first.Error)
	}
	f.agent, err = childByInnerPid(f.root.Pid, first.Pid)
	return reports, err
}

// follow waits for the agent's end, which init reports or its death implies.
func (f *processTree) follow(report *os.File, reports *json.Decoder, gone <-chan struct{}) {
	var last jail.Report
	ws := syscall.WaitStatus(syscall.SIGKILL)
	if err := reports.Decode(&last); err == nil && last.Wait != nil {
		ws = syscall.WaitStatus(*last.Wait)
	}
	f.exited <- ws
	<-gone
	report.Close()
	f.closeDoor()
	close(f.gone)
}

// namespaces requests a user namespace only if it is needed; ids don't change in
// it.
func namespaces(network bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
	}
	if network {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	if uid := os.Geteuid(); uid != 0 {
		gid := os.Getegid()
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		// Without these a user that is not root loses all rights by exec.
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
		if network {
			a.AmbientCaps = append(a.AmbientCaps, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE)
		}
	}
	return a
}

// pipes makes the config pipe and the report pipe: this process's ends, and those
// of the init process.
func pipes() (ours, theirs [2]*os.File, err error) {
	cr, cw, err := os.Pipe()
	if err != nil {
		return ours, theirs, err
	}
	rr, rw, err := os.Pipe()
	if err != nil {
		closeAll(cr, cw)
		return ours, theirs, err
	}
	return [2]*os.File{cw, rr}, [2]*os.File{cr, rw}, nil
}

func fds(files []*os.File) []uintptr {
	out := make([]uintptr, len(files))
	for i, f := range files {
		out[i] = f.Fd()
	}
	return out
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// childByInnerPid returns the child of init that has the id within the namespace.
func childByInnerPid(init, inner int) (runner.Process, error) {
	all, err := proc.All()
	if err != nil {
		return runner.Process{}, err
	}
	for _, p := range all {
		if p.PPid == init && innerPid(p.Pid) == inner {
			return p, nil
		}
	}
	// It may have ended already; init's report has its status.
	return runner.Process{}, nil
}

func innerPid(pid int) int {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			n, _ := strconv.Atoi(fields[len(fields)-1])
			return n
		}
	}
	return 0
}

// signal reaches the agent alone; [runner.ErrExited] when its process is gone. It
// checks the process itself, because readers see its end in the spool before the
// supervisor's own state has it.
func (f *processTree) signal(sig syscall.Signal) error {
	if f.agent.Pid == 0 {
		return runner.ErrExited
	}
	sent, err := proc.Deliver(f.agent, sig)
	if err == nil && !sent {
		return runner.ErrExited
	}
	return err
}

// exitedAgent reports whether the agent's process has ended. It checks the
// process itself, because the end is reported only later, after that of its
// children. A process that can't be inspected counts as alive.
func (f *processTree) exitedAgent() bool {
	if f.agent.Pid == 0 {
		return true
	}
	dead, err := proc.Dead(f.agent)
	return err == nil && dead
}

// kill ends everything at once.
func (f *processTree) kill() error {
	return proc.Signal(f.root, unix.SIGKILL)
}

// below lists the processes under the agent, without the agent.
func (f *processTree) below() ([]runner.Process, error) {
	top := os.Getpid()
	if f.isolation.PID {
		top = f.root.Pid
	}
	all, err := proc.Below(top)
	session, _ := unix.Getsid(f.agent.Pid) // 0, which no session is, once it is gone
	out := all[:0]
	for _, p := range all {
		if p.Pid != f.agent.Pid && p.Pid != f.root.Pid && !f.counts(p) {
			sid, err := unix.Getsid(p.Pid)
			p.Detached = err == nil && sid != session
			out = append(out, p)
		}
	}
	return out, err
}

// counts reports whether a child of the agent counts as the agent. A helper is
// recognised by its file, which the kernel reports and no process can fake. This
// can't distinguish a turn's command that is the helper program itself (a shell
// replaces itself by its only command): it survives like the agent's own. A
// helper that was forked and has not called exec yet, or whose file may not be
// read, is swept like any process.
func (f *processTree) counts(p runner.Process) bool {
	if p.PPid != f.agent.Pid {
		return false
	}
	if f.wrapped || len(f.helpers) == 0 {
		return f.wrapped
	}
	file, err := os.Stat(filepath.Join("/proc", strconv.Itoa(p.Pid), "exe"))
	return err == nil && slices.ContainsFunc(f.helpers, func(h os.FileInfo) bool { return os.SameFile(h, file) })
}

// sweep kills the processes below the agent that are not in the mark.
func (f *processTree) sweep(m runner.Mark, limit time.Duration) (runner.Swept, error) {
	keep := map[int]uint64{}
	for _, p := range m.Processes {
		keep[p.Pid] = p.Start
	}
	killed, left, err := proc.End(func() ([]runner.Process, error) {
		all, err := f.below()
		var doomed []runner.Process
		for _, p := range all {
			if start, kept := keep[p.Pid]; !kept || start != p.Start {
				doomed = append(doomed, p)
			}
		}
		return doomed, err
	}, limit)
	return runner.Swept{Killed: killed, Left: left}, err
}

// wait reports whether the agent's whole process tree ends before ctx does.
func (f *processTree) wait(ctx context.Context) bool {
	select {
	case <-f.gone:
		return true
	case <-ctx.Done():
		return false
	}
}
