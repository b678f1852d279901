package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// An answer is found at the end of a transcript of any length, also behind a
// line that is longer than what is searched; what is far before the end is not
// looked at.
func TestAnAnswerIsFoundAtTheEnd(t *testing.T) {
	t.Parallel()
	r, sb, _ := archiving(t)
	said := func(id string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"%[1]s","message":{"id":"%[1]s","model":"x","content":[{"type":"text","text":"said"}]}}`+"\n", id)
	}
	sb.put(mainPath, said("first")+said("last"))
	named := blockOf(t, r.agent, "last")
	require.NotEmpty(t, named)
	written := func(id string) bool {
		t.Helper()
		found, err := r.agent.hasWritten(t.Context(), strings.Replace(named, "last", id, 1))
		require.NoError(t, err)
		return found
	}
	require.True(t, written("first"))
	require.False(t, written("none"))

	long := strings.Repeat("x", tailWindow) + "\n"
	sb.put(mainPath, said("first")+long+said("last"))
	require.True(t, written("last"))
	require.False(t, written("first"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.agent.hasWritten(ctx, named)
	require.ErrorIs(t, err, context.Canceled)
}

// blockOf is the id of the block of a message on disk.
func blockOf(t *testing.T, a *agent, message string) string {
	t.Helper()
	sources, err := a.sources(t.Context())
	require.NoError(t, err)
	for ev, err := range a.adapter.Parse(sources) {
		require.NoError(t, err)
		if u, ok := ev.Payload.(event.BlockUpsert); ok && strings.Contains(u.Block.ID, message) {
			return u.Block.ID
		}
	}
	return ""
}
