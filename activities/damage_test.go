package activities

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// requireGivenUp checks that the sandbox has ended, with everything archived, and that the
// turn is resumed elsewhere because of an error that names the damage.
func (b *bench) requireGivenUp(err error, want string) {
	b.t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(b.t, err, &app)
	require.Equal(b.t, session.TypeHostLost, app.Type())
	require.True(b.t, app.NonRetryable())
	require.ErrorContains(b.t, err, "sandbox "+b.sandbox.ID+" is given up: ")
	require.ErrorContains(b.t, err, want)
	_, err = b.provider.Open(b.t.Context(), b.sandbox.ID)
	require.ErrorIs(b.t, err, sandbox.ErrNotFound)
	require.Equal(b.t, 1, count[event.EETerminated](b.events()))
}

// A reopened spool starts after everything it is known to have held. The start of a turn is
// streamed before the record at its place is written.
func TestReachedIsOfRecordsThatWere(t *testing.T) {
	t.Parallel()
	reached := func(had *turn.Place) int64 {
		return (&attempt{checkpoint: host.Checkpoint{Offset: 50}, machine: &turn.Machine{Had: had}}).reached()
	}
	require.EqualValues(t, 50, reached(nil))
	require.EqualValues(t, 50, reached(&turn.Place{Offset: 50}))
	require.EqualValues(t, 51, reached(&turn.Place{Offset: 50, Index: 1}))
	require.EqualValues(t, 91, reached(&turn.Place{Offset: 90, Index: turn.IndexEnd}))
}

// With an unusable checkpoint the turns' progress is unknown, so the sandbox is given up,
// and nothing of what its agent wrote is lost.
func TestDamageOfTheCheckpoint(t *testing.T) {
	// In a text, so that the JSON stays valid.
	flipped := func(data []byte) []byte { data[bytes.LastIndex(data, []byte(`":"`))+3] ^= 1; return data }
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(data []byte) []byte
		want  string
	}{
		"a byte was flipped": {flipped, "its checksum is "},
		"it was cut":         {func(data []byte) []byte { return data[:len(data)/2] }, "unexpected end of JSON input"},
		"a later build wrote it": {
			func(data []byte) []byte { return bytes.Replace(data, []byte(`"version":1`), []byte(`"version":2`), 1) },
			"its version is 2, and this build reads up to 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withSandbox(t)
			b.turn(b.ask(1, "words 5 tool words 3"))
			files, err := filepath.Glob(b.file(".claude", "projects", "*", "*.jsonl"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			path := b.host.Checkpoints.Path(b.sandbox.ID)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, c.spoil(data), 0o600))
			_, err = b.attempt(t.Context(), 1, b.ask(2, "words 2"))
			b.requireGivenUp(err, "checkpoint of sandbox "+b.sandbox.ID+": the checkpoint is damaged: "+path+": "+c.want)
			var kept string
			for f, err := range b.store.RestoreFiles(t.Context(), b.agent.SessionID, b.sandbox.Epoch) {
				require.NoError(t, err)
				kept += f.Path
			}
			require.Contains(t, kept, filepath.Base(files[0]))
		})
	}
}

// An agent that was killed with its runner in the middle of a turn, and can't be started
// again: the turn is resumed elsewhere, with what the agent wrote.
func TestStrandedTurnGoesElsewhere(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(program string) error{
		"the program is gone": os.Remove,
		"the program can't be run": func(program string) error {
			return errors.Join(os.Remove(program), os.WriteFile(program, []byte("no program"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withSandbox(t)
			done := b.aside(t.Context(), 1, b.ask(1, "words 3 tool hang"))
			b.until(b.last, is[event.BlockDelta])
			status, err := b.status()
			require.NoError(t, err)
			require.NoError(t, spoil(b.program))
			require.NoError(t, syscall.Kill(status.Supervisor, syscall.SIGKILL))
			require.ErrorContains(t, (<-done).err, runner.ErrClosed.Error())
			_, err = b.attempt(t.Context(), 2, b.ask(1, "words 3 tool hang"))
			b.requireGivenUp(err, "claude")
			require.Zero(t, count[event.QueryFailed](b.events()), "the turn has not ended")
		})
	}
}

// A turn that has not started fails with a typed error where its agent can't be started:
// the sandbox is kept.
func TestTurnThatCanNotBegin(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	require.NoError(t, os.Remove(b.program))
	_, err := b.attempt(t.Context(), 1, b.ask(1, "words 3"))
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, session.TypeAgentMissing, app.Type())
	_, err = b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
}

// A sandbox can be ended without its checkpoint.
func TestDamageOfTheCheckpointAtTheEnd(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 5"))
	require.NoError(t, os.WriteFile(b.host.Checkpoints.Path(b.sandbox.ID), []byte("\x00\x00"), 0o600))
	b.end()
	_, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound)
}

// A checkpoint after the end of a live runner's spool.
func TestDamagePositionPastTheSpoolsEnd(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 5"))
	checkpoint, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	checkpoint.Offset += 1_000_000
	require.NoError(t, b.host.Checkpoints.Save(b.sandbox.ID, checkpoint))
	_, err = b.attempt(t.Context(), 1, b.ask(2, "words 2"))
	b.requireGivenUp(err, runner.ErrOffset.Error())
}

// A spool that was lost with its runner continues at its old offset: the next turn is
// streamed whole.
func TestDamageOfTheWholeSpool(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 5"))
	a, err := b.host.Find(t.Context(), b.agent, b.sandbox.ID, b.sandbox.Epoch)
	require.NoError(t, err)
	require.NoError(t, b.host.StopAgent(t.Context(), a, runner.Grace{}))
	require.NoError(t, os.RemoveAll(filepath.Join(a.Paths.Control, "spool")))
	require.NoError(t, os.WriteFile(filepath.Join(a.Paths.Control, "inputs.jsonl"), []byte("{\n"), 0o600))
	out := b.turn(b.ask(2, "words 4"))
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Equal(t, numbersFrom(1, 4), strings.TrimLeft(out.Result.Result.Response, " "))
	require.Equal(t, 2, count[event.QueryCompleted](b.events()))
	var told []string
	for _, ev := range b.events() {
		if l, ok := ev.Payload.(event.Log); ok && l.Level == "warn" {
			told = append(told, l.Message)
		}
	}
	require.Contains(t, strings.Join(told, "\n"), "inputs.jsonl: the line at byte 0 is damaged")
}
