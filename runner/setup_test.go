//go:build linux

package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
	"github.com/sojourn-run/sojourn/test/skip"
)

const token = "t0ken"

// bench is one control folder with the programs.
type bench struct {
	t       testing.TB
	program string
	spec    runner.StartSpec
}

// setup returns a fresh bench; mode is none or require. The test is skipped if
// namespaces are not allowed.
func setup(t testing.TB, mode runner.IsolationMode, args ...string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "run") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"sojourn-runner", "agent", "server"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	b := &bench{t: t, program: filepath.Join(dir, "sojourn-runner")}
	if mode == runner.IsolationRequire {
		isolation, err := host.Probe(t.Context(), b.program)
		require.NoError(t, err)
		if !isolation.PID {
			skip.Without(t, "namespaces: "+isolation.Reason)
		}
	}
	socket, err := runner.SocketPath(dir, "box")
	require.NoError(t, err)
	b.spec = runner.StartSpec{
		Epoch:     1,
		Token:     token,
		Argv:      append([]string{filepath.Join(dir, "agent")}, args...),
		Env:       []string{"PATH=/usr/bin:/bin", "HOME=" + dir},
		Dir:       dir,
		Control:   filepath.Join(dir, "control"),
		Socket:    socket,
		Isolation: runner.IsolationSpec{Mode: mode},
		// On a busy machine an agent takes its time to end.
		Grace: runner.Grace{Stdin: time.Minute, Term: time.Minute},
	}
	t.Cleanup(func() {
		require.NoError(t, host.End(context.Background(), b.spec.Control))
		if log, err := os.ReadFile(filepath.Join(b.spec.Control, "runner.log")); err == nil {
			require.NotContains(t, string(log), "DATA RACE")
			require.NotContains(t, string(log), "panic")
		}
	})
	return b
}

// bothModes runs a test with and without namespaces.
func bothModes(t *testing.T, test func(t *testing.T, mode runner.IsolationMode)) {
	for _, mode := range []runner.IsolationMode{runner.IsolationRequire, runner.IsolationNone} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// start runs `start` as a separate process, as a provider would.
func (b *bench) start() (runner.Status, error) {
	raw, err := json.Marshal(b.spec)
	require.NoError(b.t, err)
	cmd := exec.CommandContext(b.t.Context(), b.program, "start")
	cmd.Stdin = bytes.NewReader(raw)
	out, _ := cmd.Output()
	return runner.DecodeStarted(out)
}

func (b *bench) mustStart() runner.Status {
	b.t.Helper()
	st, err := b.start()
	require.NoError(b.t, err)
	return st
}

func (b *bench) dial() *runner.Conn {
	b.t.Helper()
	c, err := b.dialAs(token, b.spec.Epoch)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

func (b *bench) dialAs(tok string, epoch uint64) (*runner.Conn, error) {
	return runner.DialSocket(b.t.Context(), b.spec.Socket, tok, epoch)
}

// reader pulls records one by one.
type reader struct {
	t    testing.TB
	next func() (runner.Delivery, error, bool)
	last runner.Delivery
}

func read(t testing.TB, c *runner.Conn, from int64) *reader {
	// Only so that a hanging test reports where; a huge line takes long under the
	// race detector on a busy machine.
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	next, stop := iter.Pull2(c.Records(ctx, from))
	t.Cleanup(func() { stop(); cancel() })
	return &reader{t: t, next: next}
}

// until returns the first record that has the direction and begins with prefix.
func (r *reader) until(dir event.Dir, prefix string) runner.Delivery {
	r.t.Helper()
	for {
		d, err, ok := r.next()
		require.NoError(r.t, err)
		require.Truef(r.t, ok, "the records ended before %s %q", dir, prefix)
		if r.last.Next != 0 {
			require.Equal(r.t, r.last.Next, d.Offset, "records join")
		}
		r.last = d
		if d.Record.Dir == dir && strings.HasPrefix(d.Record.Line, prefix) {
			return d
		}
	}
}

// end reads to the end of the stream.
func (r *reader) end() []traffic.Record {
	r.t.Helper()
	var all []traffic.Record
	for {
		d, err, ok := r.next()
		require.NoError(r.t, err)
		if !ok {
			return all
		}
		all = append(all, d.Record)
	}
}

// say sends one command to the agent under an id.
func say(t testing.TB, c *runner.Conn, id, line string) runner.Ack {
	t.Helper()
	ack, err := c.Input(t.Context(), id, []byte(line+"\n"))
	require.NoError(t, err)
	return ack
}

func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
