package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastWordsAreInTheError: what a process printed just before it ended is read before its
// end is reported.
func TestLastWordsAreInTheError(t *testing.T) {
	t.Parallel()
	for range 200 {
		_, err := Spawn(t.Context(), Spec{Name: "short", Argv: []string{"sh", "-c", "echo last words; exit 1"}, ReadyText: "never"})
		require.ErrorContains(t, err, "last words")
	}
}
