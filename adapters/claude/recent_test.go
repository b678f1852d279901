package claude

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a transcript of any length the latest lines are remembered.
func TestRecentLinesAreRemembered(t *testing.T) {
	t.Parallel()
	var r recent
	id := func(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }
	const lines = 2*rememberedLines + 10
	for n := range lines {
		require.False(t, r.again(id(n)))
	}
	for n := lines - rememberedLines; n < lines; n++ {
		require.True(t, r.again(id(n)))
	}
	require.Len(t, r.known, rememberedLines)
	require.Len(t, r.ring, rememberedLines)
	require.False(t, r.again(id(0)), "forgotten")
}
