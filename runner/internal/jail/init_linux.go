// Package jail is the first process of an agent's PID and mount namespace: it
// hides folders from the agent, starts the agent, reaps what is orphaned, and
// ends when the agent ends, whereupon the kernel kills whatever is left in the
// namespace.
//
// The supervisor starts it as `sojourn-runner init` with the agent's stdio as
// its own, a [Config] on descriptor 3, and reads [Report]s from descriptor 4.
package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner/internal/network"
)

// Config is the init process's input.
type Config struct {
	// Path is the agent's program, absolute; Argv with it.
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	View View     `json:"view"`
	// Network is nil in the machine's own network; else the process is the first
	// of a network namespace, with the supervisor's socket on descriptor 5.
	Network *network.Inside `json:"network,omitempty"`
}

// Report is one line from the init process.
type Report struct {
	// Pid is the agent's id within the namespace, once it runs.
	Pid int `json:"pid,omitempty"`
	// Error is what failed; if set, nothing was started.
	Error string `json:"error,omitempty"`
	// Setup means that the namespace failed, not the agent's program.
	Setup bool `json:"setup,omitempty"`
	// Wait is the agent's wait status, once it has ended.
	Wait *uint32 `json:"wait,omitempty"`
}

// Main is the init process; it returns its exit code.
func Main() int {
	// The parent-death signals below are per thread, and so are the capabilities that
	// the agent must not inherit.
	runtime.LockOSThread()
	config, report := os.NewFile(3, "config"), os.NewFile(4, "report")
	out := json.NewEncoder(report)
	pid, setup, err := begin(config)
	if err != nil {
		_ = out.Encode(Report{Error: err.Error(), Setup: setup})
		return 1
	}
	_ = out.Encode(Report{Pid: pid})
	status := reap(pid)
	_ = out.Encode(Report{Wait: &status})
	return 0
}

// begin sets everything up and starts the agent; setup reports which of the two
// failed.
func begin(config *os.File) (pid int, setup bool, err error) {
	// As process 1 of the namespace it must survive the agent's signals.
	ignoreSignals()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 0, true, fmt.Errorf("set parent-death signal: %w", err)
	}
	var c Config
	// If the supervisor died before that, this ends early.
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return 0, true, fmt.Errorf("read config: %w", err)
	}
	config.Close()
	var supervisor *os.File
	if c.Network != nil {
		supervisor = os.NewFile(5, "network")
		if err := network.Enter(*c.Network, supervisor); err != nil {
			return 0, true, err
		}
	}
	if err := c.View.apply(); err != nil {
		return 0, true, err
	}
	pid, err = start(c)
	if err == nil && supervisor != nil {
		go network.Serve(supervisor)
	}
	return pid, false, err
}

// ignoreSignals catches instead of ignoring, since an ignored signal would be
// ignored in the agent too.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1))
}

func start(c Config) (int, error) {
	if err := CloseOnExec(); err != nil {
		return 0, err
	}
	pid, err := Spawn(c.Path, c.Argv, c.Env, c.Dir, []uintptr{0, 1, 2})
	if err != nil {
		return 0, err
	}
	// From now on only the agent holds its pipes, so that they end with it, and it
	// can't inspect this process.
	return pid, errors.Join(detachStdio(), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// Spawn starts the agent's process, in a new session, to die with the calling
// thread, which loses the privileges that no agent needs.
func Spawn(path string, argv, env []string, dir string, files []uintptr) (int, error) {
	if err := dropPrivileges(); err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s in %s: %w", path, dir, err)
	}
	// At once: its threads and processes inherit it.
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, agentNice)
	go lowerSession(pid)
	return pid, nil
}

// agentNice is the nice value of an agent and of what it starts. A worker and the
// servers beside it take little processor time, but at once: with a dozen agents at
// their priority heartbeats come late, and healthy hosts are taken for lost.
const agentNice = 10

// lowerSession lowers the priority of an agent's session, by which Linux divides the
// processors first where autogroups are on (sched(7)). It is only an improvement, as is
// the nice value: a machine that has or allows neither is none the worse.
func lowerSession(pid int) {
	for range 20 {
		err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(agentNice)), 0)
		if !errors.Is(err, unix.EAGAIN) {
			return
		}
		time.Sleep(100 * time.Millisecond) // the kernel takes ten a second of the whole machine
	}
}

// CloseOnExec ensures that no descriptor but stdio reaches the agent, whatever
// this process was started with.
func CloseOnExec() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return nil
}

func detachStdio() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return fmt.Errorf("detach stdio: %w", err)
		}
	}
	return nil
}

// reap waits for every process that ends here until the agent has.
func reap(agent int) uint32 {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if pid == agent {
			return uint32(ws)
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return uint32(syscall.SIGKILL)
		}
	}
}
