package activities

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/workspace"
)

// workspace returns a path in the folder where the bench's agent works.
func (b *bench) workspace(elem ...string) string {
	b.t.Helper()
	sb, err := b.provider.Open(b.t.Context(), b.sandbox.ID)
	require.NoError(b.t, err)
	info, err := sb.Info(b.t.Context())
	require.NoError(b.t, err)
	return filepath.Join(append([]string{info.Paths.Workspace}, elem...)...)
}

func (b *bench) write(name, content string, mode fs.FileMode) {
	b.t.Helper()
	path := b.workspace(filepath.FromSlash(name))
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), mode))
	require.NoError(b.t, os.Chmod(path, mode))
}

func fileChanges(events []event.Event) []string {
	var found []string
	for _, ev := range events {
		switch p := ev.Payload.(type) {
		case event.FileCreated:
			found = append(found, "created "+p.Path)
		case event.FileModified:
			found = append(found, "modified "+p.Path)
		case event.FileDeleted:
			found = append(found, "deleted "+p.Path)
		}
	}
	return found
}

// The workspace follows the session into its next sandbox, with what was created after the
// last turn, and without what was deleted.
func TestWorkspaceFollows(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	binary := string(bytes.Repeat([]byte{0, 255, 10}, 1000))
	b.write("deep/run", binary, 0o755)
	b.write("gone", "x", 0o600)
	require.NoError(t, os.Symlink("/etc/passwd", b.workspace("link")))
	require.Equal(t, `not kept of the workspace: symlink "link", which leads outside`, b.turn(b.ask(1, "words 1")).NotKept)
	require.NoError(t, os.Remove(b.workspace("gone")))
	b.write("late", "after the turn", 0o600)
	b.end()
	require.Equal(t, []string{"created deep/run", "created gone", "created late", "deleted gone"}, fileChanges(b.events()))

	b.create()
	got, err := os.ReadFile(b.workspace("deep", "run"))
	require.NoError(t, err)
	require.Equal(t, binary, string(got))
	info, err := os.Stat(b.workspace("deep", "run"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
	require.FileExists(t, b.workspace("late"))
	require.NoFileExists(t, b.workspace("gone"))
	require.Len(t, fileChanges(b.events()), 4, "restored files are no changes")
}

// What a periodic sync has read when its turn ends is reported with what the last sync sees.
func TestChangesSeenAtTheEndAreReported(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	w := &watching{syncer: b.host.syncer(b.agent, sb, b.sandbox.Epoch), seen: make(chan []workspace.Observation)}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.pass(ended, []workspace.Observation{{Path: "read", SHA256: "1", At: time.Now()}})
	var events []event.Event
	require.NoError(t, w.syncer.Notifier.Publish(nil, func(all []event.Event) error {
		events = all
		return nil
	}))
	require.Equal(t, []string{"created read"}, fileChanges(events))
}

// interruptedEnd ends sandboxes like the provider that it wraps, and then the attempt that
// did so.
type interruptedEnd struct {
	sandbox.Provider
	after func()
}

func (p interruptedEnd) Open(ctx context.Context, id string) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Open(ctx, id)
	return endingSandbox{sb, p.after}, err
}

type endingSandbox struct {
	sandbox.Sandbox
	after func()
}

func (s endingSandbox) Terminate(ctx context.Context) error {
	defer s.after()
	return s.Sandbox.Terminate(ctx)
}

// What an attempt found when it ended a sandbox is reported by the next one, if it could not.
func TestEndOfASandboxIsReportedWhole(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	require.NoError(t, os.Symlink("/etc/passwd", b.workspace("link")))
	b.turn(b.ask(1, "words 1"))
	ctx, cancel := context.WithCancel(t.Context())
	whole := b.host.o.Provider
	b.host.o.Provider = interruptedEnd{whole, cancel}
	_, err := as[contract.EndSandboxOutput](ctx, 1, b.host.EndSandbox, contract.EndSandboxInput{Agent: b.agent, Sandbox: b.sandbox, Reason: "manual", LastSeq: b.last})
	require.Error(t, err)
	b.host.o.Provider = whole
	_, err = whole.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound)

	b.end()
	ended := b.until(b.last, is[event.EETerminated]).Payload.(event.EETerminated)
	require.Equal(t, `not kept of the workspace: symlink "link", which leads outside`, ended.Message)
	require.NoFileExists(t, b.host.Checkpoints.Path(b.sandbox.ID))
}

// What changed since the last turn is reported by the next try if the stream refused it.
func TestLateChangesAreReportedAgain(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	b.write("late", "after the turn", 0o600)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	in := contract.EndSandboxInput{Agent: b.agent, Sandbox: b.sandbox, Reason: "manual", LastSeq: b.last}
	in.Sandbox.Epoch-- // the stream refuses it
	_, err = b.host.syncLast(t.Context(), in, sb)
	require.ErrorIs(t, err, stream.ErrFenced)
	require.Empty(t, fileChanges(b.events()))
	b.end()
	require.Equal(t, []string{"created late"}, fileChanges(b.events()))
}

// A folder of the user's is never read.
func TestTheUsersFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.Workspace = t.TempDir()
	b.begin()
	b.create()
	require.NoError(t, os.WriteFile(filepath.Join(b.agent.Workspace, "mine"), []byte("x"), 0o600))
	b.turn(b.ask(1, "words 1"))
	b.end()
	archived, err := workspace.Open(t.Context(), b.store, b.agent.SessionID, 0)
	require.NoError(t, err)
	require.False(t, archived.Known())
	require.Empty(t, fileChanges(b.events()))
	require.FileExists(t, filepath.Join(b.agent.Workspace, "mine"))
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound, "%v", sb)
}
