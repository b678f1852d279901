//go:build linux

package runner_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
)

// patience bounds the waits of these tests; no test depends on it.
const patience = time.Minute

// A runner whose folder is removed or moved can never be found again: it ends its
// agent and itself.
func TestRunnerEndsWithItsFolder(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"a folder above": func(dir string) error {
			return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+"-moved")
		},
		"replaced": func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
				b := setup(t, mode, "stubborn")
				b.spec.Control = filepath.Join(filepath.Dir(b.program), "box", "control")
				st := b.mustStart()
				c := b.dial()
				fifo, up, gone := alive(t)
				say(t, c, "m1", "spawn "+fifo)
				within(t, "child is up", up)
				require.NoError(t, remove(b.spec.Control))
				within(t, "child is dead", gone)
				within(t, "connection is gone", c.Done())
				require.Eventually(t, func() bool { return syscall.Kill(st.Supervisor, 0) == syscall.ESRCH }, patience, 5*time.Millisecond)
			})
		})
	}
}

// An agent without requests from a worker is stopped; each request prolongs it.
func TestIdleLease(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		b.spec.IdleLease = 10 * time.Second
		st := b.mustStart()
		c := b.dial()
		first, err := c.Status(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			now, err := c.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, runner.AgentRunning, now.State)
			return now.IdleUntil.After(first.IdleUntil.Add(b.spec.IdleLease))
		}, patience, 50*time.Millisecond, "requests renew it")
		require.NoError(t, c.Lease(t.Context(), time.Hour))
		leased, err := c.Status(t.Context())
		require.NoError(t, err)
		require.Zero(t, leased.IdleUntil, "a turn's lease counts alone")
		require.NoError(t, c.Lease(t.Context(), 0))

		// The connection remains open, like that of a worker that hangs.
		require.Eventually(t, func() bool { return syscall.Kill(st.Supervisor, 0) == syscall.ESRCH }, patience, 5*time.Millisecond)
		within(t, "connection is gone", c.Done())
		state, err := host.Look(b.spec.Control)
		require.NoError(t, err)
		require.False(t, state.Died())
		require.Equal(t, runner.AgentExited, state.Status.State)
		require.Empty(t, state.Status.Fault, "nothing is wrong with it")
		require.Zero(t, *state.Status.ExitCode, "it was asked to end")

		b.spec.IdleLease = 0
		require.Equal(t, 1, b.mustStart().RestartCount)
		read(t, b.dial(), 0).until(event.DirSig, "exit 0 (no worker for 10s)")
	})
}

func TestIdleLeaseMustBePositive(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone)
	b.spec.IdleLease = -time.Second
	_, err := b.start()
	require.ErrorContains(t, err, `field "idleLease" is -1s`)
}
