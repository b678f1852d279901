package activities

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/sandbox"
)

// What an agent left unreadable is distinguished from a store that does not answer, however
// the errors were wrapped and joined: only the second is retried.
func TestUnreadableIsToldFromTheStore(t *testing.T) {
	t.Parallel()
	away := errors.New("the store is away")
	closed := asUnreadable(t.Context(), errors.New("permission denied"))
	invalid := fmt.Errorf("%w transcript id %q", archive.ErrInvalid, "\xff")

	left, rest := unreadableOf(nil)
	require.Empty(t, left)
	require.NoError(t, rest)
	left, rest = unreadableOf(fmt.Errorf("archive: %w", closed))
	require.Equal(t, []string{"not archived: archive: permission denied"}, left)
	require.NoError(t, rest)
	left, rest = unreadableOf(fmt.Errorf("archive: %w", away))
	require.Empty(t, left)
	require.ErrorIs(t, rest, away)
	left, rest = unreadableOf(fmt.Errorf("session: %w", errors.Join(closed, fmt.Errorf("put: %w", invalid), away)))
	require.Len(t, left, 2)
	require.ErrorIs(t, rest, away)
	require.NotErrorIs(t, rest, archive.ErrInvalid)

	left, rest = unreadableOf(asUnreadable(t.Context(), fmt.Errorf("open: %w", sandbox.ErrShort)))
	require.Empty(t, left, "what the host is short of now it may have later")
	require.ErrorIs(t, rest, sandbox.ErrShort)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	left, rest = unreadableOf(asUnreadable(ended, context.Canceled))
	require.Empty(t, left, "a canceled read is no error of the file")
	require.ErrorIs(t, rest, context.Canceled)
}
