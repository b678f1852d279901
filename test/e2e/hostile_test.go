package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// startOrdinaryWorker starts a worker that is not root, so that file permissions bind
// it.
func startOrdinaryWorker(t *testing.T) *worker {
	t.Helper()
	setting, err := shared.OrdinaryUser()
	if err != nil {
		skip.Without(t, fmt.Sprintf("a worker of an ordinary user: %v", err))
	}
	return startWorker(t, setting)
}

// closeHome has a tool of the agent remove all permissions from the home, and returns
// after that, in the middle of the turn.
func closeHome(t *testing.T, w *worker, h *session.Handle) {
	t.Helper()
	_, err := h.Send(testContext(t), session.Message{Text: "TOOL bash: chmod 000 $HOME && echo done > $TMPDIR/closed"})
	require.NoError(t, err)
	require.True(t, waits(func() bool {
		done, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "tmp", "closed"))
		require.NoError(t, err)
		return len(done) == 1
	}), "the home is closed")
}

// TestNothingLeftOfAClosedHome: a tool removes all permissions from its home. The
// session can still be closed and terminated.
func TestNothingLeftOfAClosedHome(t *testing.T) {
	skip.InShort(t, "TestNothingLeft looks for remains too")
	withClaude(t)
	inOwnNamespace(t)
	w := startOrdinaryWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		closed := open(t, session.Options{Agent: a.Info().Name})
		require.NoError(t, say(t, closed, "SAY before").Err())
		closeHome(t, w, closed)
		require.NoError(t, closed.Close(testContext(t)))
		gone(t, w, closed, "close")

		terminated := open(t, session.Options{Agent: a.Info().Name})
		closeHome(t, w, terminated)
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(context.WithoutCancel(t.Context()), terminated.ID(), "", "by its test"))
		gone(t, w, terminated, "terminate")
	})
}

// TestNothingLeftOfDeepFolders: a tool nests folders far deeper than the longest path.
// What is too deep to be archived is named, the rest is restored.
func TestNothingLeftOfDeepFolders(t *testing.T) {
	skip.InShort(t, "TestNothingLeft looks for remains too")
	withClaude(t)
	inOwnNamespace(t)
	w := startOrdinaryWorker(t)
	h := open(t, session.Options{})
	const nest = `n=nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn; echo kept > kept.txt; ` +
		`for at in $PWD $HOME; do cd $at; i=0; while [ $i -lt 500 ]; do mkdir $n && cd -P $n || break; i=$((i+1)); done; echo made $i; done`
	require.NoError(t, say(t, h, "TOOL bash: "+nest).Err())
	require.Len(t, results(t, h, "made 500"), 1)
	awaitIdle(t, h)
	require.NoError(t, h.Evict(testContext(t)))
	ended := heardUntil(t, h, 0, first(func(event.EETerminated) bool { return true }))
	require.Contains(t, ended[len(ended)-1].Payload.(event.EETerminated).Message, "not kept of the workspace")
	gone(t, w, h, "evict")
	require.NoError(t, say(t, h, "TOOL bash: cat kept.txt").Err())
	require.NotEmpty(t, results(t, h, "kept"), "a path that is too long takes no other file with it")
	require.NoError(t, h.Close(testContext(t)))
	gone(t, w, h, "close")
}

// results returns the tool results of a session that contain some words.
func results(t *testing.T, h *session.Handle, words string) []event.Block {
	t.Helper()
	live, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromStream)
	require.NoError(t, err)
	var found []event.Block
	for _, b := range live.State.Blocks {
		if b.Type == event.BlockToolResult && strings.Contains(string(b.Output), words) {
			found = append(found, b)
		}
	}
	return found
}

// TestNothingLeftOfImmutableFiles: a file that even root can't remove as it is prevents
// neither its session's end nor a worker's start.
func TestNothingLeftOfImmutableFiles(t *testing.T) {
	skip.InShort(t, "TestNothingLeft looks for remains too")
	inOwnNamespace(t)
	w := startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL write: frozen.txt :: for ever").Err())
	files, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "workspace", "frozen.txt"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	if out, err := exec.Command("chattr", "+i", files[0]).CombinedOutput(); err != nil {
		skip.Without(t, fmt.Sprintf("immutable files: %v: %s", err, out))
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-R", "-i", w.dataDir).Run() })
	require.NoError(t, w.Kill())
	startWorkerIn(t, w.dataDir)
	require.NoError(t, h.Close(testContext(t)))
	gone(t, w, h, "close")
	left, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", ".gone-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
