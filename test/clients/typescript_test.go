package clients

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/nasty"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestR128ClientReducer: the reducer in TypeScript makes of the same events the same state as package
// reducer, after every scenario of that and after random events, and leaves the state as it is
// after the same ones.
func TestR128ClientReducer(t *testing.T) {
	skip.InShort(t, "needs the client in TypeScript, which npm installs")
	sequences := append(scenarios(t), random(t, 500, 80)...)
	var in bytes.Buffer
	for _, events := range sequences {
		require.NoError(t, json.NewEncoder(&in).Encode(events))
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(TypeScript(t), "test", "fold.mjs"))
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &said
	out, err := cmd.Output()
	require.NoError(t, err, &said)
	folded := json.NewDecoder(bytes.NewReader(out))
	for i, events := range sequences {
		var got struct {
			State json.RawMessage
			Same  []bool
		}
		require.NoError(t, folded.Decode(&got))
		var state reducer.State
		for at, e := range events {
			next := reducer.Reduce(state, e)
			require.Equal(t, next.Same(state), got.Same[at], "sequence %d, event %d: %s", i, at, encode(t, e))
			state = next
		}
		require.JSONEq(t, encode(t, state), string(got.State), "sequence %d", i)
	}
}

// TestR128ClientUnderFaults runs the client's own tests: over lost connections and answers, rooms that are left and
// joined, sessions that are closed, opened again and deleted, and listeners that throw.
func TestR128ClientUnderFaults(t *testing.T) {
	skip.InShort(t, "needs the client in TypeScript, which npm installs")
	cmd := exec.CommandContext(t.Context(), "node", "--test", filepath.Join(TypeScript(t), "test", "client.test.mjs"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func scenarios(t *testing.T) (all [][]event.Event) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "reducer", "testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		story, err := txtar.ParseFile(path)
		require.NoError(t, err)
		require.Equal(t, "events", story.Files[0].Name, path)
		var events []event.Event
		for e, err := range jsonl.Decode(bytes.NewReader(story.Files[0].Data)) {
			require.NoError(t, err)
			events = append(events, e)
		}
		all = append(all, events)
	}
	return all
}

// random returns n sequences of events as a gateway sends them.
func random(t *testing.T, n uint64, length int) (all [][]event.Event) {
	t.Helper()
	for seed := range n {
		var events []event.Event
		for _, e := range nasty.New(seed).Events(length) {
			var sent event.Event
			require.NoError(t, json.Unmarshal([]byte(encode(t, e)), &sent))
			events = append(events, sent)
		}
		all = append(all, events)
	}
	return all
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
