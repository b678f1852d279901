//go:build linux

package runner_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/runner/internal/cli"
)

// TestMain makes this binary also the runner and the agent, selected by the name
// under which it is called: no build step, and the race detector watches the
// supervisor.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "sojourn-runner":
		os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "agent":
		os.Exit(agent(os.Args[1:]))
	case "server":
		os.Exit(server(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// agent is a line-driven program: its arguments set its behavior, each input line
// is a command.
func agent(args []string) int {
	for _, a := range args {
		if a == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	fmt.Println("ready")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return linger(args)
		}
		order, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if code, over := obey(order, rest); over {
			return code
		}
	}
}

// linger decides what a stubborn agent does when its input has ended.
func linger(args []string) int {
	if len(args) > 0 && args[0] == "stubborn" {
		select {}
	}
	fmt.Println("bye")
	return 0
}

func obey(order, rest string) (code int, over bool) {
	switch order {
	case "exit":
		fmt.Sscan(rest, &code)
		return code, true
	case "flood":
		flood(rest)
	case "big":
		var n, more int // a long line, and so many short ones, at once
		fmt.Sscan(rest, &n, &more)
		os.Stdout.WriteString(strings.Repeat("x", n) + "\n" + strings.Repeat("behind\n", more))
	case "quoted": // as JSON is
		var n int
		fmt.Sscan(rest, &n)
		const piece = `{"key":"some words, \"quoted\"","n":123456},`
		os.Stdout.WriteString("[" + strings.Repeat(piece, n/len(piece)) + "]\n")
	case "torn":
		os.Stdout.WriteString(rest)
	case "complain":
		fmt.Fprintln(os.Stderr, rest)
	case "env", "fds", "priority":
		fmt.Println(order + " " + map[string]func() string{"env": environment, "fds": descriptors, "priority": priority}[order]())
	case "ls":
		fmt.Println("ls " + list(rest))
	case "open":
		f, err := os.Open(rest)
		if err == nil {
			f.Close()
		}
		fmt.Println("open", err)
	case "spawn":
		fmt.Println("spawned", spawn(rest))
	case "spawnby":
		program, fifo, _ := strings.Cut(rest, " ")
		fmt.Println("spawned", spawnBy(program, fifo))
	case "quiet":
	default:
		fmt.Println("echo " + order + " " + rest)
	}
	return 0, false
}

func flood(rest string) {
	var n, pad int
	fmt.Sscan(rest, &n, &pad)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i := range n {
		fmt.Fprintf(out, "line %d%*s\n", i, pad, "")
	}
}

func environment() string { return strings.Join(os.Environ(), "\x1f") }

// priority returns this process's nice value and its session's.
func priority() string {
	stat, _ := os.ReadFile("/proc/self/stat")
	session, _ := os.ReadFile("/proc/self/autogroup")
	return strings.Fields(string(stat))[18] + " " + strings.TrimSpace(string(session))
}

func descriptors() string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// Those of this process's own Go runtime and of this listing.
		own := strings.HasPrefix(target, "anon_inode") || strings.HasPrefix(target, "/proc/") || strings.HasPrefix(target, "/sys/fs/cgroup/")
		if err == nil && !own {
			out = append(out, e.Name()+"="+target)
		}
	}
	return strings.Join(out, " ")
}

func list(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "error " + err.Error()
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// spawn starts a process in a new session with its stdio detached, as the agents'
// shell tools do. It holds a named pipe open while it lives: a reader sees the
// end when it is dead.
func spawn(fifo string) int {
	return detach(exec.Command("/bin/sh", "-c", `exec 3>"$1"; echo up >&3; while :; do sleep 3600; done`, "sh", fifo))
}

// spawnBy is spawn by a copy of the shell, which is then idle and has no
// children.
func spawnBy(shell, fifo string) int {
	return detach(exec.Command(shell, "-c", `exec 3>"$1"; echo up >&3; kill -STOP $$`, "sh", fifo))
}

func detach(cmd *exec.Cmd) int {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println("spawn:", err)
		return -1
	}
	return cmd.Process.Pid
}

// alive opens a named pipe for a process to hold. up is closed when it is held,
// and gone when no process holds it any more.
func alive(t *testing.T) (fifo string, up, gone <-chan struct{}) {
	t.Helper()
	fifo = filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	upC, goneC := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(goneC)
		f, err := os.Open(fifo) // waits for the writer
		if err != nil {
			return
		}
		defer f.Close()
		close(upC)
		_, _ = io.Copy(io.Discard, f)
	}()
	return fifo, upC, goneC
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}
