package event

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecodeEvent: whatever decodes encodes again, and decodes to itself.
func FuzzDecodeEvent(f *testing.F) {
	for _, p := range sample() {
		line, err := AppendEvent(nil, whole(p))
		require.NoError(f, err)
		f.Add(line)
	}
	paths, err := filepath.Glob("../reducer/testdata/*.txtar")
	require.NoError(f, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		for line := range bytes.Lines(data) {
			f.Add(bytes.TrimSpace(line))
		}
	}
	f.Add([]byte(`{"type":"quantum:leap","payload":{"b": 1},"context":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e Event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		first, err := AppendEvent(nil, e)
		require.NoError(t, err)
		require.False(t, bytes.ContainsRune(first, '\n'))
		var again Event
		require.NoError(t, json.Unmarshal(first, &again))
		second, err := AppendEvent(nil, again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
