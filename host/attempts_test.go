package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// completions is a Temporal that records how activities end.
type completions struct {
	Temporal
	mu     sync.Mutex
	failed map[string]error
	says   error
}

func (c *completions) CompleteActivity(_ context.Context, token []byte, _ any, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[string(token)] = err
	return c.says
}

// What a worker had running when it died is failed by the next one, once and so that it is
// retried at once; what it had completed is not.
func TestPredecessorsAttemptsFail(t *testing.T) {
	t.Parallel()
	says := &completions{failed: map[string]error{}}
	h := New(Options{DataDir: t.TempDir(), Temporal: says, Log: quiet()})
	defer func() { require.NoError(t, h.Close()) }()
	_, err := h.saveAttempt(activity.Info{TaskToken: []byte("open")})
	require.NoError(t, err)
	remove, err := h.saveAttempt(activity.Info{TaskToken: []byte("done")})
	require.NoError(t, err)
	remove()
	require.NoError(t, os.WriteFile(h.attemptPath("torn"), []byte("{"), 0o600))

	says.says = errors.New("away")
	require.ErrorContains(t, h.FailPredecessor(t.Context()), "away")
	says.says = serviceerror.NewNotFound("timed out meanwhile")
	require.NoError(t, h.FailPredecessor(t.Context()))
	require.Len(t, says.failed, 1)
	var app *temporal.ApplicationError
	require.ErrorAs(t, says.failed["open"], &app)
	require.Positive(t, app.NextRetryDelay(), "no back-off for kills")
	require.False(t, app.NonRetryable())
	left, err := filepath.Glob(h.attemptPath("*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A worker that is killed while it writes an attempt or a checkpoint leaves a partial file;
// the next one removes that, and nothing else.
func TestPredecessorsHalfWrittenFilesGo(t *testing.T) {
	t.Parallel()
	h := New(Options{DataDir: t.TempDir(), Temporal: &completions{failed: map[string]error{}}, Log: quiet()})
	defer func() { require.NoError(t, h.Close()) }()
	require.NoError(t, h.FailPredecessor(t.Context()), "a new folder has no files")
	require.NoError(t, h.Checkpoints.Save("s-e1", Checkpoint{Offset: 7}))
	_, err := h.saveAttempt(activity.Info{TaskToken: []byte("open")})
	require.NoError(t, err)
	for _, dir := range []string{"bookmarks", "attempts"} {
		f, err := os.CreateTemp(filepath.Join(h.o.DataDir, dir), halfWritten)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NoError(t, h.FailPredecessor(t.Context()))
	left, err := filepath.Glob(filepath.Join(h.o.DataDir, "*", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{h.Checkpoints.Path("s-e1")}, left)
}

// The next worker starts even if the file of a previous worker's attempt can't be read.
func TestDamageOfAnAttempt(t *testing.T) {
	t.Parallel()
	h := New(Options{DataDir: t.TempDir(), Log: quiet()})
	defer func() { require.NoError(t, h.Close()) }()
	path := h.attemptPath("box")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.NoError(t, h.FailPredecessor(context.Background()))
	require.NoFileExists(t, path)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
