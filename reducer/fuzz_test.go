package reducer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
)

// FuzzReduce: for any lines of events, all folds agree, and the state can be
// stored and continued from.
func FuzzReduce(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(parseStory(data).section("events").data)
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		var events []event.Event
		for e, err := range jsonl.Decode(bytes.NewReader(lines)) {
			if err != nil {
				break
			}
			events = append(events, e)
		}
		if len(events) > 200 {
			events = events[:200]
		}
		reduced := reduceAll(State{}, events)
		want := encode(t, reduced)
		require.Equal(t, want, encode(t, buildAll(events)))
		var back State
		require.NoError(t, json.Unmarshal([]byte(want), &back))
		require.Equal(t, want, encode(t, back))
		_, err := json.Marshal(sessionOf(events))
		require.NoError(t, err)
	})
}
