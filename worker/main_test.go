package worker

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/test/teststack"
)

// The roles of a process of this binary, set in the variable of that name.
const (
	roleVariable = "SOJOURN_TEST_ROLE"
	// program is the worker itself.
	program = "program"
	// In these roles it supervises; its child writes how it was started into the file
	// that traceVariable names, and continues as the role requires.
	crashing, panicking, staying = "crashing", "panicking", "staying"
	// claiming takes the given data folder and waits.
	claiming = "claiming"

	traceVariable = "SOJOURN_TEST_TRACE"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	code := m.Run()
	servers.Stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	switch {
	case role == program, len(args) > 0 && args[0] == "supervise":
		return Run(ctx, args, os.Getenv, os.Stdout, os.Stderr)
	case role == claiming:
		me, err := claim(args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer me.lock.Close() // the collector closes a file without references
		fmt.Println("claimed")
		<-ctx.Done()
		return 0
	}
	trace(strings.TrimSpace("started " + strings.Join(args, " ")))
	switch role {
	case crashing:
		return 1
	case panicking:
		panic("a worker's fault")
	}
	fmt.Println("child is up")
	<-ctx.Done()
	trace("told to stop")
	return 0
}

func trace(line string) {
	f, err := os.OpenFile(os.Getenv(traceVariable), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, line)
	_ = f.Close()
}

// child is a process of this binary.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr lockedBuffer
}

func spawn(t *testing.T, role string, env []string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{t: t, cmd: exec.Command(self, args...)}
	c.cmd.Env = append(os.Environ(), append(env, roleVariable+"="+role)...)
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.stdout = bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// says waits for a line of standard output.
func (c *child) says() string {
	c.t.Helper()
	line, err := c.stdout.ReadString('\n')
	require.NoError(c.t, err, c.stderr.String())
	return strings.TrimSpace(line)
}

// end waits for the exit code.
func (c *child) end() int {
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// servers is the development stack, for what must be reachable.
var servers teststack.Shared
