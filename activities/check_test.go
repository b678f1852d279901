package activities

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// While a check runs, its sandbox has work: it is neither idle nor evicted.
func TestACheckKeepsItsSandbox(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	checked := make(chan error, 1)
	go func() {
		out, err := as[contract.CheckOutput](t.Context(), 1, b.host.Check, contract.CheckInput{
			Sandbox: b.sandbox, Command: "touch begun; until [ -e enough ]; do sleep 0.02; done", TimeoutMS: 60_000,
		})
		if err == nil && out.Code != 0 {
			t.Errorf("the check ended with code %d: %s", out.Code, out.Output)
		}
		checked <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(b.workspace("begun"))
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	end := contract.EndSandboxInput{Agent: b.agent, Sandbox: b.sandbox, Reason: "idle", LastSeq: b.last, UnlessBusy: true}
	out, err := as[contract.EndSandboxOutput](t.Context(), 1, b.host.EndSandbox, end)
	require.NoError(t, err)
	require.Contains(t, out.Background, "a check")
	b.write("enough", "", 0o600)
	require.NoError(t, <-checked)
	require.Eventually(t, func() bool {
		out, err = as[contract.EndSandboxOutput](t.Context(), 1, b.host.EndSandbox, end)
		return err == nil && len(out.Background) == 0
	}, time.Minute, 20*time.Millisecond)
}

// slowEnd is a provider whose sandboxes end slowly: first their processes, then they.
type slowEnd struct {
	sandbox.Provider
	processes func()
}

func (p slowEnd) Open(ctx context.Context, id string) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Open(ctx, id)
	return slowSandbox{sb, p.processes}, err
}

type slowSandbox struct {
	sandbox.Sandbox
	processes func()
}

func (s slowSandbox) Terminate(ctx context.Context) error {
	s.processes()
	return s.Sandbox.Terminate(ctx)
}

// A check that is killed with its sandbox has no verdict, also while the sandbox is still found.
func TestACheckEndsWithItsSandbox(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	checked := make(chan error, 1)
	whole := b.host.o.Provider
	b.host.o.Provider = slowEnd{whole, func() {
		b.write("killed", "", 0o600)
		err := <-checked
		var app *temporal.ApplicationError
		if assert.ErrorAs(t, err, &app) {
			assert.Equal(t, session.TypeHostLost, app.Type())
		}
		_, err = whole.Open(context.Background(), b.sandbox.ID)
		assert.NoError(t, err, "the sandbox is there")
	}}
	go func() {
		_, err := as[contract.CheckOutput](context.Background(), 1, b.host.Check, contract.CheckInput{
			Sandbox: b.sandbox, Command: "touch begun; until [ -e killed ]; do sleep 0.02; done; kill -9 $$", TimeoutMS: 60_000,
		})
		checked <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(b.workspace("begun"))
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	b.end()
}

// The sandbox stays for a moment behind the turn of a job, whose check is on its way.
func TestASandboxIsSparedForACheck(t *testing.T) {
	t.Parallel()
	for message, spared := range map[string]bool{"m1": false, contract.FirstJobMessage: true, contract.RepairMessage(1): true} {
		synctest.Test(t, func(t *testing.T) {
			h := NewHost(HostOptions{Options: host.Options{ID: "h", DataDir: t.TempDir(), Slots: host.NewSlots(1, "a"), Log: quiet()}})
			turn := live("s", "x1")
			turn.in.Sandbox.ID, turn.in.Message.ID = "a", message
			h.enter(turn)()
			require.Equal(t, spared, !h.Slots.TryReserve(), message)
			require.NoError(t, h.Close())
		})
	}
}
