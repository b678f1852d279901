//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal that can't be read keeps its size: an input whose id is lost would be written
// to the agent a second time.
func TestAJournalThatIsNotReadIsNotCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inputs.jsonl")
	const lines = "{\"key\":\"m1\"}\n{\"key\":\"m2\"}\n"
	require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // reads fail, as of a broken disk
	require.NoError(t, err)
	defer f.Close()
	j := &journal{file: f, known: map[string]entry{}}
	require.Error(t, j.load())
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, lines, string(kept))
}
