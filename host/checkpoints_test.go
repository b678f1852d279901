package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// example returns a checkpoint in which every field has a value.
func example() Checkpoint {
	at := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	return Checkpoint{
		Offset: 7, Translator: []byte(`{"v":1,"sum":""}`), Parsed: []byte(`{"at":3}`),
		Ended: "x1", Output: &contract.RunTurnOutput{LastSeq: 3, Result: session.Result{ExecutionID: "x1", MessageID: "m1"}}, Unarchived: true,
		Model: "m", Permission: "allow", Unhealthy: true,
		Open: &Execution{
			ExecutionID: "x2", MessageID: "m2", Interrupt: &contract.Interrupt{Reason: "r"}, InterruptedAt: at,
			Options: contract.Options{Permission: adapters.PermissionDeny}, Cut: &event.ErrorInfo{Message: "too <long>"},
			Resume: &turn.Resume{Times: 1, Why: "why"},
		},
		Server: []archive.ServerEntry{{ID: "a", Event: event.FromServer(event.Log{Message: "x"}, at)}},
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	none, err := all.Load("box")
	require.NoError(t, err)
	require.Equal(t, Checkpoint{}, none, "a sandbox begins at its beginning")
	require.NoError(t, all.Save("box", Checkpoint{Offset: 1}))
	require.NoError(t, all.Save("box", example()))
	got, err := all.Load("box")
	require.NoError(t, err)
	require.Equal(t, example(), got)
	require.NoError(t, all.Remove("box"))
	require.NoError(t, all.Remove("box"), "again")
	got, err = all.Load("box")
	require.NoError(t, err)
	require.Equal(t, Checkpoint{}, got)
}

func TestCheckpointIsSavedUnlessAnotherTurnWroteIt(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	require.NoError(t, all.Save("box", Checkpoint{Ended: "x1"}))
	is := func(id string) func(Checkpoint) bool { return func(c Checkpoint) bool { return c.Ended == id } }
	require.NoError(t, all.SaveIf("box", Checkpoint{Ended: "x1", Offset: 2}, is("x1")))
	require.NoError(t, all.SaveIf("box", Checkpoint{Ended: "x1", Offset: 3}, is("x2")))
	got, err := all.Load("box")
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Offset)
}

// Any changed bit of a checkpoint, and any missing byte at its end, is detected.
func TestCheckpointEveryByteCounts(t *testing.T) {
	t.Parallel()
	whole, err := encode(example())
	require.NoError(t, err)
	read, err := decode(whole)
	require.NoError(t, err)
	require.Equal(t, example(), read)
	for i := range whole {
		_, err := decode(whole[:i])
		require.Errorf(t, err, "cut at %d", i)
		for bit := range 8 {
			flipped := append([]byte(nil), whole...)
			flipped[i] ^= 1 << bit
			_, err := decode(flipped)
			require.Errorf(t, err, "bit %d of byte %d: %s", bit, i, flipped)
		}
	}
}

// A rolling upgrade runs two builds side by side, and a rollback returns to the previous
// build: each reads what the other wrote.
func TestCheckpointOfTheBuildBefore(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	before := `{"offset":12,"translator":{"v":1},"ended":"x1","output":{"result":{"executionId":"x1","messageId":"m1"}},"open":{"executionId":"x2","running":{}}}`
	require.NoError(t, os.MkdirAll(filepath.Dir(all.Path("box")), 0o700))
	require.NoError(t, os.WriteFile(all.Path("box"), []byte(before), 0o600))
	got, err := all.Load("box")
	require.NoError(t, err)
	require.EqualValues(t, 12, got.Offset)
	require.Equal(t, "x2", got.Open.ExecutionID)

	// The previous build has no version and no sum, and drops unknown fields.
	require.NoError(t, all.Save("box", example()))
	data, err := os.ReadFile(all.Path("box"))
	require.NoError(t, err)
	var old Checkpoint
	require.NoError(t, json.Unmarshal(data, &old))
	require.Equal(t, example(), old)
}

func TestCheckpointDamaged(t *testing.T) {
	t.Parallel()
	whole, err := encode(example())
	require.NoError(t, err)
	for name, c := range map[string]struct{ data, want string }{
		"empty":   {"", "unexpected end of JSON input"},
		"cut":     {string(whole[:len(whole)-9]), "unexpected end of JSON input"},
		"grown":   {string(whole) + "\n", "its checksum is "},
		"changed": {strings.Replace(string(whole), `"offset":7`, `"offset":8`, 1), "its checksum is "},
		"newer":   {strings.Replace(string(whole), `"version":1`, `"version":2`, 1), "its version is 2, and this build reads up to 1"},
		"no sum":  {`{"version":1,"offset":7}`, `its checksum is "", and its content has `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := NewCheckpoints(t.TempDir())
			require.NoError(t, all.Save("box", Checkpoint{}))
			require.NoError(t, os.WriteFile(all.Path("box"), []byte(c.data), 0o600))
			got, err := all.Load("box")
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, "checkpoint of sandbox box: the checkpoint is damaged: "+all.Path("box")+": "+c.want)
			require.Equal(t, Checkpoint{}, got)
			require.NoError(t, all.Save("box", Checkpoint{Offset: 1}), "a new one replaces it")
		})
	}
}

// A crash while a checkpoint is written leaves the old one or the new one: a concurrent
// reader never sees anything else, and no other file remains.
func TestCheckpointIsOldOrNew(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	require.NoError(t, all.Save("box", Checkpoint{}))
	large := []byte(`"` + strings.Repeat("x", 1<<16) + `"`)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(200) {
			if err := all.Save("box", Checkpoint{Offset: i + 1, Translator: large}); err != nil {
				panic(err)
			}
		}
	})
	last := int64(0)
	for last < 200 {
		c, err := all.Load("box")
		require.NoError(t, err)
		require.GreaterOrEqual(t, c.Offset, last)
		last = c.Offset
	}
	wg.Wait()
	files, err := os.ReadDir(filepath.Dir(all.Path("box")))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// With a folder in place of the file, a save fails and leaves no other file.
func TestCheckpointThatCanNotBeSaved(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Join(all.Path("box"), "in"), 0o700))
	require.ErrorContains(t, all.Save("box", Checkpoint{}), "checkpoint of sandbox box")
	_, err := all.Load("box")
	require.ErrorContains(t, err, "checkpoint of sandbox box")
	require.False(t, errors.Is(err, ErrDamaged), "it was not read")
	files, err := os.ReadDir(filepath.Dir(all.Path("box")))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestHalfWrittenCheckpointsAreRemoved(t *testing.T) {
	t.Parallel()
	all := NewCheckpoints(t.TempDir())
	require.NoError(t, all.RemoveHalfWritten(), "no folder yet")
	require.NoError(t, all.Save("box", Checkpoint{Offset: 7}))
	f, err := os.CreateTemp(filepath.Dir(all.Path("box")), halfWritten)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, all.RemoveHalfWritten())
	left, err := filepath.Glob(filepath.Join(filepath.Dir(all.Path("box")), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{all.Path("box")}, left)
}
