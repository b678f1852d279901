package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
)

// Watched is the input of a watchdog and the supervisor below it.
type Watched struct {
	Spec runner.StartSpec `json:"spec"`
	// Reason is why the agent gets no namespace.
	Reason string `json:"reason"`
	// Env is the supervisor's environment.
	Env []string `json:"env"`
}

// NoWatchdogError means that an agent needs a watchdog, as it gets no namespace.
// Nothing was started.
type NoWatchdogError struct {
	// Reason is why it gets no namespace.
	Reason string
}

// Error returns the reason.
func (e *NoWatchdogError) Error() string { return e.Reason + ": the supervisor needs a watchdog" }

// BecomeWatchdog turns this process into the watchdog of a supervisor, which gets its
// ready descriptor. It returns only on an error. The watchdog's environment is
// empty: it is not among the processes that carry a sandbox's mark.
func BecomeWatchdog(g Watched, ready *os.File) error {
	raw, err := json.Marshal(g)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("watchdog", 0)
	if err != nil {
		return fmt.Errorf("become watchdog: %w", err)
	}
	memory := os.NewFile(uintptr(fd), "watchdog")
	_, err = memory.Write(raw)
	err = errors.Join(err, unix.Dup3(fd, 0, 0), memory.Close())
	if err == nil {
		// It was set to close on exec; the supervisor must inherit it.
		_, err = unix.FcntlInt(ready.Fd(), unix.F_SETFD, 0)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", []string{"sojourn-runner", "watchdog"}, nil)
	}
	return fmt.Errorf("become watchdog: %w", err)
}

// ReadWatched reads what BecomeGuard wrote, from its beginning.
func ReadWatched(in *os.File) (Watched, error) {
	var g Watched
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return g, fmt.Errorf("read what the watchdog passes on: %w", err)
	}
	if err := json.NewDecoder(in).Decode(&g); err != nil {
		return g, fmt.Errorf("read what the watchdog passes on: %w", err)
	}
	return g, nil
}

// Watchdog is the parent of a supervisor whose agent has no namespace, and does what
// the kernel does for a namespace: when the supervisor ends, by its lease or
// otherwise, it ends all processes left below, including detached sessions and
// double forks. It does nothing else, so what stops or kills the others does not
// affect it. If it is killed itself, the supervisor ends its agent. It returns
// when nothing is left.
func Watchdog(stdin, ready *os.File, log *slog.Logger) error {
	// The supervisor's parent-death signal is tied to this thread.
	runtime.LockOSThread()
	g, err := ReadWatched(stdin)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	child, err := syscall.ForkExec("/proc/self/exe", []string{"sojourn-runner", "supervise", "watched"}, &syscall.ProcAttr{
		Dir: "/", Env: g.Env,
		Files: []uintptr{stdin.Fd(), 1, 2, ready.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM},
	})
	stdin.Close()
	ready.Close()
	if err != nil {
		return fmt.Errorf("start supervisor below its watchdog: %w", err)
	}
	passOn(child)
	// This process has read the token.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("memory is readable by the same user", "error", err)
	}
	awaitEnd(child)
	return endAll()
}

// passOn forwards a request to end to the supervisor, which shuts down in order;
// other signals are dropped.
func passOn(child int) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, os.Interrupt)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		for range asked {
			_ = unix.Kill(child, unix.SIGTERM)
		}
	}()
}

// awaitEnd reaps until the child has ended, and leaves the child for endAll to
// reap: until then no other process can have its id.
func awaitEnd(child int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, child, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil || !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// endAll kills the processes below this one until none is left.
func endAll() error {
	for {
		below, err := belowSelf()
		if err != nil {
			return fmt.Errorf("end what the supervisor left: %w", err)
		}
		for _, p := range below {
			// A process that can't be killed is waited for.
			_ = proc.Signal(p, unix.SIGKILL)
		}
		// A dying process may have started another one just before.
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &ws, 0, nil); errors.Is(err, syscall.ECHILD) {
			return nil
		}
	}
}

// endStray kills the processes that carry the sandbox's mark and are not the
// runner's own commands: those could outlive a supervisor that was killed
// together with its watchdog.
func endStray() error {
	mark := os.Getenv(runner.MarkEnv)
	self, err := os.Stat("/proc/self/exe")
	if mark == "" || err != nil {
		return err
	}
	_, left, err := proc.End(func() ([]runner.Process, error) {
		marked, err := proc.WithEnv(runner.MarkEnv + "=" + mark)
		var stray []runner.Process
		for _, p := range marked {
			exe, serr := os.Stat(fmt.Sprintf("/proc/%d/exe", p.Pid))
			if serr == nil && !os.SameFile(exe, self) {
				stray = append(stray, p)
			}
		}
		return stray, err
	}, 5*time.Second)
	if err == nil && len(left) > 0 {
		names := make([]string, len(left))
		for i, p := range left {
			names[i] = fmt.Sprintf("%d (%s)", p.Pid, p.Comm)
		}
		err = fmt.Errorf("processes of the previous agent do not end: %s", strings.Join(names, ", "))
	}
	return err
}
