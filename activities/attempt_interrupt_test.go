package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// starting translates for an agent that can take nothing before its first record.
type starting struct {
	adapters.Translator
	started bool
}

func (s *starting) Step(traffic.Record) []event.Event { s.started = true; return nil }

func (s *starting) Due() []adapters.Message { return nil }

func (s *starting) Encode(id string, _ adapters.Input) ([]adapters.Message, error) {
	if !s.started {
		return nil, adapters.ErrNotYet
	}
	return []adapters.Message{{ID: id}}, nil
}

// The ten seconds until an interrupted agent is terminated begin when it is sent the interrupt,
// also for a later attempt. An agent that never starts is terminated too.
func TestInterruptOfAnAgentThatStarts(t *testing.T) {
	t.Parallel()
	h := bare(t)
	var written []string
	attemptWith := func(saved host.Checkpoint) *attempt {
		a := &attempt{
			host: h, in: contract.RunTurnInput{Sandbox: session.Sandbox{ID: "b1"}, ExecutionID: "x1"},
			machine: turn.NewMachine(turn.Config{ExecutionID: "x1", Patience: time.Hour}, ""), checkpoint: saved,
		}
		a.dialogue = adapters.NewDialogue(&starting{}, func(_ context.Context, m adapters.Message) error {
			written = append(written, m.ID)
			return nil
		})
		return a
	}
	begun := func() host.Checkpoint { return host.Checkpoint{Open: &host.Execution{ExecutionID: "x1"}} }
	interrupt := contract.ControlInput{ID: "i1", Interrupt: &contract.Interrupt{Reason: "enough"}}
	in := func(a *attempt, d time.Duration) []turn.Action {
		return a.machine.Step(turn.Tick{Now: time.Now().Add(d)})
	}
	terminates := []turn.Action{turn.TerminateAgent{}}

	first := attemptWith(begun())
	require.NoError(t, first.control(t.Context(), interrupt))
	require.Empty(t, in(first, 15*time.Second), "it is not asked yet")
	require.Empty(t, written)
	_, err := first.translate(t.Context(), runner.Delivery{})
	require.NoError(t, err)
	require.Equal(t, []string{"i1"}, written)
	require.Empty(t, in(first, 9*time.Second))
	require.Equal(t, terminates, in(first, 11*time.Second))

	never := attemptWith(begun())
	require.NoError(t, never.control(t.Context(), interrupt))
	require.Empty(t, in(never, 60*time.Second))
	require.Equal(t, terminates, in(never, 71*time.Second))

	saved, err := h.Checkpoints.Load("b1")
	require.NoError(t, err)
	later := attemptWith(saved)
	later.resumeMachine()
	require.NoError(t, later.interruptAgain(t.Context()))
	require.Empty(t, in(later, 60*time.Second))
	_, err = later.translate(t.Context(), runner.Delivery{})
	require.NoError(t, err)
	require.Equal(t, []string{"i1", "i1"}, written)
	require.Empty(t, in(later, 9*time.Second))
	saved, err = h.Checkpoints.Load("b1")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), saved.Open.InterruptedAt, 30*time.Second)
	require.Equal(t, terminates, in(later, 11*time.Second))
}

// An attempt that dies while it sends an interrupt does not know whether the agent got it. The
// agent may stop for it, and the next attempt then knows why; if the agent did not get it, it
// is sent.
func TestInterruptIsSavedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	h := bare(t)
	written := 0
	attemptWith := func(saved host.Checkpoint, end error) *attempt {
		a := &attempt{
			host: h, in: contract.RunTurnInput{Sandbox: session.Sandbox{ID: "b1"}, ExecutionID: "x1"},
			machine: turn.NewMachine(turn.Config{ExecutionID: "x1", Patience: time.Hour}, ""), checkpoint: saved,
		}
		a.dialogue = adapters.NewDialogue(&starting{started: true}, func(context.Context, adapters.Message) error {
			written++
			return end
		})
		return a
	}
	dying := attemptWith(host.Checkpoint{Open: &host.Execution{ExecutionID: "x1"}}, context.Canceled)
	err := dying.control(t.Context(), contract.ControlInput{ID: "i1", Interrupt: &contract.Interrupt{Reason: "enough"}})
	require.ErrorIs(t, err, context.Canceled)

	saved, err := h.Checkpoints.Load("b1")
	require.NoError(t, err)
	next := attemptWith(saved, nil)
	next.resumeMachine()
	require.NotNil(t, next.machine.Interrupt)
	require.Equal(t, "enough", next.machine.Interrupt.Reason)
	require.NoError(t, next.interruptAgain(t.Context()))
	require.Equal(t, 2, written, "under one id: the runner writes it once")
}
