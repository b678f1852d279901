//go:build linux

package runner_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
	"github.com/sojourn-run/sojourn/test/executable"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestStopLeavesNoProcess(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		st := b.mustStart()
		c := b.dial()
		fifo, up, gone := alive(t)
		say(t, c, "m1", "spawn "+fifo)
		within(t, "child is up", up)
		stopped, err := c.Stop(t.Context(), runner.Grace{})
		require.NoError(t, err)
		require.Equal(t, 0, *stopped.ExitCode, "it ended by the end of its input")
		within(t, "child in a session of its own is dead", gone)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return syscall.Kill(st.Supervisor, 0) == syscall.ESRCH }, time.Minute, 5*time.Millisecond,
			"the supervisor goes when the last client has")
		require.NoFileExists(t, b.spec.Socket)
	})
}

func TestStopOfAStubbornAgent(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode, "stubborn")
		b.mustStart()
		c := b.dial()
		r := read(t, c, 0)
		r.until(event.DirOut, "ready")
		st, err := c.Stop(t.Context(), runner.Grace{Stdin: 10 * time.Millisecond, Term: 10 * time.Millisecond})
		require.NoError(t, err)
		require.Equal(t, "killed", st.Signal)
		require.Equal(t, 128+9, *st.ExitCode)
		r.until(event.DirSig, "signal killed")
	})
}

func TestSignalReachesTheAgent(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirOut, "ready")
	require.NoError(t, c.Signal(t.Context(), syscall.SIGINT))
	r.until(event.DirSig, "signal interrupt")
	require.ErrorIs(t, c.Signal(t.Context(), syscall.SIGINT), runner.ErrExited, "whoever has read of the end")
	r.end()
	require.ErrorIs(t, c.Signal(t.Context(), syscall.SIGINT), runner.ErrExited)
}

// TestInputOfADeadAgentIsRefused: between the end of the agent's process and the
// end of its children no input is accepted, since nothing would read it. Stopping
// the first process of the namespace prolongs that moment.
func TestInputOfADeadAgentIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationRequire)
	st := b.mustStart()
	c := b.dial()
	say(t, c, "m1", "hello")
	r := read(t, c, 0)
	r.until(event.DirOut, "echo hello")
	init := parentOf(t, st.Pid)
	require.NoError(t, syscall.Kill(init, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(init, syscall.SIGCONT) }()
	requireState(t, init, "T")
	kill(t, st.Pid)
	requireState(t, st.Pid, "Z")
	_, err := c.Input(t.Context(), "m2", []byte("too late\n"))
	require.ErrorIs(t, err, runner.ErrExited)
	require.True(t, say(t, c, "m1", "hello").Gone, "what had it is gone")
	now, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, runner.AgentRunning, now.State, "its end is not recorded yet")
	require.NoError(t, syscall.Kill(init, syscall.SIGCONT))
	end := r.end()
	require.Equal(t, 0, count(end, event.DirIn, ""))
	require.Equal(t, 1, count(end, event.DirSig, "signal killed"))

	b.mustStart()
	next := b.dial()
	require.False(t, say(t, next, "m2", "again").Duplicate)
	read(t, next, 0).until(event.DirOut, "echo again")
}

func TestEverythingDiesWithTheSupervisor(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode, "stubborn")
		st := b.mustStart()
		c := b.dial()
		fifo, up, gone := alive(t)
		say(t, c, "m1", "spawn "+fifo)
		within(t, "child is up", up)
		kill(t, st.Supervisor)
		within(t, "child is dead", gone)
		within(t, "connection is gone", c.Done())
		_, err := c.Status(t.Context())
		require.ErrorIs(t, err, runner.ErrClosed)
		state, err := host.Look(b.spec.Control)
		require.NoError(t, err)
		require.True(t, state.Died())
		// A new start continues where the dead one ended.
		again := b.mustStart()
		require.Equal(t, 1, again.RestartCount)
		r := read(t, b.dial(), 0)
		r.until(event.DirIn, "spawn")
		r.until(event.DirSig, runner.EndWithRunner)
		require.Equal(t, again.StartOffset, r.until(event.DirSig, "start").Offset)
	})
}

// Without a namespace the supervisor has a watchdog; the agent ends when either is
// lost.
func TestNothingIsLeftWithoutItsGuard(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone, "stubborn")
	st := b.mustStart()
	c := b.dial()
	fifo, up, gone := alive(t)
	say(t, c, "m1", "spawn "+fifo)
	within(t, "child is up", up)
	watchdog := parentOf(t, st.Supervisor)
	require.Equal(t, "sojourn-runner", commOf(t, watchdog))
	require.NotEqual(t, os.Getpid(), watchdog)
	kill(t, watchdog)
	within(t, "child is dead", gone)
	within(t, "the supervisor has gone in good order", c.Done())
	state, err := host.Look(b.spec.Control)
	require.NoError(t, err)
	require.False(t, state.Died())
	require.Equal(t, runner.AgentExited, state.Status.State)
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	require.NoError(t, err)
	parent, err := strconv.Atoi(statFields(raw)[1])
	require.NoError(t, err)
	return parent
}

// statFields returns what follows a process's name in its stat.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// requireState waits until all threads of a process have a state: T is stopped,
// Z is dead and not reaped.
func requireState(t *testing.T, pid int, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		threads, err := filepath.Glob("/proc/" + itoa(pid) + "/task/*/stat")
		if state == "Z" && len(threads) > 1 {
			return false // a thread that ends shows it too, and its process is not dead yet
		}
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			raw, err := os.ReadFile(path)
			return err != nil || statFields(raw)[0] != state
		})
	}, 10*time.Second, time.Millisecond, "process %d has the state %s", pid, state)
}

func commOf(t *testing.T, pid int) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
	require.NoError(t, err)
	name, _, _ := strings.Cut(string(raw), "\x00")
	return filepath.Base(name)
}

func TestLeaseEndsEverythingEvenWhenStopped(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		st := b.mustStart()
		c := b.dial()
		fifo, up, gone := alive(t)
		say(t, c, "m1", "spawn "+fifo)
		within(t, "child is up", up)
		require.NoError(t, c.Lease(t.Context(), time.Hour))
		now, err := c.Status(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(time.Hour), now.LeaseUntil, time.Minute)
		require.NoError(t, c.Lease(t.Context(), 0))
		now, err = c.Status(t.Context())
		require.NoError(t, err)
		require.Zero(t, now.LeaseUntil)
		require.NoError(t, c.Lease(t.Context(), 8*time.Second))
		require.NoError(t, syscall.Kill(st.Supervisor, syscall.SIGSTOP))
		within(t, "child is dead", gone)
	})
}

// A lease counts from when it was sent: one that was long on its way has expired
// on arrival.
func TestLeaseCountsFromItsSending(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	since := runner.BootTime()
	since.At -= time.Minute
	_ = c.LeaseSince(t.Context(), 40*time.Second, since)
	within(t, "the supervisor is dead", c.Done())
}

// The program that a wrapper starts is the agent: it may start later than the
// mark.
func TestSweepSparesAWrappedProgram(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		b.spec.Isolation.Programs = []string{b.program}
		b.mustStart()
		c := b.dial()
		program, up, gone := alive(t)
		say(t, c, "m1", "spawn "+program)
		within(t, "the program is up", up)
		_, err := c.Sweep(t.Context(), runner.Mark{}) // ends its children again and again
		require.NoError(t, err)
		select {
		case <-gone:
			t.Fatal("the program was killed")
		default:
		}
	})
}

// A helper is recognised by its file: a process that merely has its name is
// swept, and so is the same file anywhere but right below the agent.
func TestSweepSparesAHelper(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		bin, fake := filepath.Join(b.spec.Dir, "bin"), filepath.Join(b.spec.Dir, "fake")
		self, err := os.Executable()
		require.NoError(t, err)
		clone(t, self, filepath.Join(bin, "agent"))
		clone(t, "/bin/sh", filepath.Join(bin, "helper"))
		clone(t, "/bin/sh", filepath.Join(fake, "helper"))
		require.NoError(t, os.Remove(b.spec.Argv[0]))
		require.NoError(t, os.Symlink(filepath.Join(bin, "agent"), b.spec.Argv[0]))
		b.spec.Helpers = []string{"helper", "no-such"}
		b.mustStart()
		c := b.dial()
		helper, helperUp, helperGone := alive(t)
		say(t, c, "m1", "spawnby "+filepath.Join(bin, "helper")+" "+helper)
		within(t, "the helper is up", helperUp)
		named, namedUp, namedGone := alive(t)
		say(t, c, "m2", "spawnby "+filepath.Join(fake, "helper")+" "+named)
		within(t, "what has its name is up", namedUp)
		below, belowUp, belowGone := alive(t)
		nested := filepath.Join(b.spec.Dir, "nested")
		executable.Write(t, nested, []byte("#!/bin/sh\n"+filepath.Join(bin, "helper")+` "$@" & wait`+"\n"))
		say(t, c, "m3", "spawnby "+nested+" "+below)
		within(t, "the one below a tool is up", belowUp)
		swept, err := c.Sweep(t.Context(), runner.Mark{})
		require.NoError(t, err)
		require.Empty(t, swept.Left)
		within(t, "what has its name is dead", namedGone)
		within(t, "the one below a tool is dead", belowGone)
		select {
		case <-helperGone:
			t.Fatal("the helper was killed")
		default:
		}
		now, err := c.Processes(t.Context())
		require.NoError(t, err)
		require.Empty(t, now, "a helper is the agent's own")
	})
}

// clone copies a program.
func clone(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
	executable.Write(t, to, data)
}

func TestMarkAndSweep(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		b.mustStart()
		c := b.dial()
		before, beforeUp, beforeGone := alive(t)
		say(t, c, "m1", "spawn "+before)
		within(t, "first child is up", beforeUp)
		mark, err := c.Mark(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, mark.Processes)
		turn, turnUp, turnGone := alive(t)
		say(t, c, "m2", "spawn "+turn)
		within(t, "second child is up", turnUp)
		swept, err := c.Sweep(t.Context(), mark)
		require.NoError(t, err)
		require.NotEmpty(t, swept.Killed)
		require.Empty(t, swept.Left)
		within(t, "second child is dead", turnGone)
		select {
		case <-beforeGone:
			t.Fatal("a marked process was killed")
		default:
		}
		r := read(t, c, 0)
		say(t, c, "m3", "alive?")
		r.until(event.DirOut, "echo alive?")
		_, err = c.Sweep(t.Context(), runner.Mark{})
		require.NoError(t, err)
		within(t, "first child is dead", beforeGone)
		left, err := c.Processes(t.Context())
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestAgentSeesOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationRequire)
	data, err := os.MkdirTemp("", "data")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	require.NoError(t, os.MkdirAll(filepath.Join(data, "boxes/mine/home"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(data, "boxes/other"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(data, "tools/bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "secret"), []byte("key"), 0o600))
	b.spec.Isolation.Hide = []string{data}
	b.spec.Isolation.Keep = []string{filepath.Join(data, "boxes/mine/home")}
	b.spec.Isolation.KeepReadOnly = []string{filepath.Join(data, "tools"), filepath.Join(data, "no-such")}
	st := b.mustStart()
	require.True(t, st.Isolation.Mount)
	c := b.dial()
	r := read(t, c, 0)
	ask := func(id, order string) string {
		say(t, c, id, order)
		name, _, _ := strings.Cut(order, " ")
		return strings.TrimPrefix(r.until(event.DirOut, name+" ").Record.Line, name+" ")
	}
	require.Equal(t, "boxes tools", ask("1", "ls "+data))
	require.Equal(t, "mine", ask("2", "ls "+filepath.Join(data, "boxes")))
	require.Equal(t, "bin", ask("3", "ls "+filepath.Join(data, "tools")))
	for _, name := range strings.Fields(ask("4", "ls /proc")) {
		if pid, err := strconv.Atoi(name); err == nil {
			require.Less(t, pid, 100, "the worker's /proc is hidden")
		}
	}
	require.Contains(t, ask("5", "open /proc/1/fd/4"), "permission denied", "init's descriptors are out of reach")
	require.Contains(t, ask("6", "open /proc/1/environ"), "permission denied")
}

// An agent is below what keeps it alive: workers and servers have their processor time
// at once. So is its session, where processors are divided by session first.
func TestAgentGivesWay(t *testing.T) {
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		b.mustStart()
		c := b.dial()
		r := read(t, c, 0)
		_, err := os.Stat("/proc/self/autogroup")
		bySession := err == nil
		for n, until := 1, time.Now().Add(time.Minute); ; n++ {
			say(t, c, strconv.Itoa(n), "priority")
			line := r.until(event.DirOut, "priority ").Record.Line
			require.True(t, strings.HasPrefix(line, "priority 10"), line)
			if !bySession || strings.HasSuffix(line, "nice 10") {
				break
			}
			require.True(t, time.Now().Before(until), line)
		}
	})
}

func TestAgentInheritsNothing(t *testing.T) {
	t.Setenv("TEMPORAL_API_KEY", "house key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "house key")
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		b.mustStart()
		c := b.dial()
		r := read(t, c, 0)
		say(t, c, "1", "env")
		env := strings.Split(strings.TrimPrefix(r.until(event.DirOut, "env ").Record.Line, "env "), "\x1f")
		require.ElementsMatch(t, b.spec.Env, env)
		say(t, c, "2", "fds")
		fds := strings.Fields(strings.TrimPrefix(r.until(event.DirOut, "fds ").Record.Line, "fds "))
		require.Len(t, fds, 3, "stdin, stdout and stderr: %v", fds)
	})
}
