package activities

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
)

// workspace is where the bench's agent works.
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

// archived are the files that the archive has.
func (b *bench) archived() map[string]archive.WorkspaceFile {
	b.t.Helper()
	all := map[string]archive.WorkspaceFile{}
	for f, err := range b.store.WorkspaceFiles(b.t.Context(), b.agent.SessionID) {
		require.NoError(b.t, err)
		all[f.Path] = f
	}
	return all
}

func (b *bench) keeper() *keeper {
	b.t.Helper()
	sb, err := b.provider.Open(b.t.Context(), b.sandbox.ID)
	require.NoError(b.t, err)
	return b.host.keeper(b.agent, sb, b.sandbox.Epoch)
}

// looks is what one look of the keeper finds, as "type path".
func (b *bench) looks() (changes []string, left string) {
	b.t.Helper()
	k := b.keeper()
	news, left, err := k.sync(b.t.Context())
	require.NoError(b.t, err)
	return fileChanges(k.teller.tell(news)), left
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

func TestKeeperFindsWhatChanged(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.write("a.txt", "one", 0o644)
	b.write("bin/run", "#!/bin/sh\n", 0o755)
	b.write("node_modules/x/index.js", "cache", 0o644)
	b.write(".git/HEAD", "ref", 0o644)
	changes, left := b.looks()
	require.Empty(t, left)
	require.Equal(t, []string{"created a.txt", "created bin/run"}, changes, "a repository's inner files are kept and not told")
	require.Equal(t, []string{".git/HEAD", "a.txt", "bin/run"}, slices.Sorted(maps.Keys(b.archived())))
	require.Equal(t, fs.FileMode(0o755), b.archived()["bin/run"].Mode)
	changes, _ = b.looks()
	require.Empty(t, changes)

	b.write("a.txt", "two", 0o644) // of the same size, in the same tick
	require.NoError(t, os.Chmod(b.workspace("bin", "run"), 0o700))
	changes, _ = b.looks()
	require.Equal(t, []string{"modified a.txt", "modified bin/run"}, changes)

	// A folder takes a file's place, and the next worker knows nothing.
	require.NoError(t, os.Remove(b.workspace("a.txt")))
	b.write("a.txt/in", "three", 0o644)
	b.worker()
	changes, _ = b.looks()
	require.Equal(t, []string{"created a.txt/in", "deleted a.txt"}, changes)
	require.Equal(t, []string{".git/HEAD", "a.txt/in", "bin/run"}, slices.Sorted(maps.Keys(b.archived())))
}

// settle makes the keeper take everything for settled.
func (b *bench) settle() {
	b.t.Helper()
	k := b.keeper()
	for f, err := range k.sb.CopyOut(b.t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace}) {
		require.NoError(b.t, err)
		if s, seen := k.seen[f.Path]; seen {
			s.stamp = f.Stamp
			k.seen[f.Path] = s
		}
	}
}

// A file that has settled is not read again, whatever times it was given.
func TestKeeperReadsWhatChangedOnly(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.write("a", "one", 0o644)
	b.write("b", "one", 0o644)
	changes, _ := b.looks()
	require.Equal(t, []string{"created a", "created b"}, changes)
	changes, _ = b.looks()
	require.Empty(t, changes)
	require.Equal(t, 4, b.keeper().read, "so young a file may have changed since")
	b.settle()
	info, err := os.Stat(b.workspace("a"))
	require.NoError(t, err)
	b.write("a", "two", 0o644)
	require.NoError(t, os.Chtimes(b.workspace("a"), info.ModTime(), info.ModTime()))
	changes, _ = b.looks()
	require.Equal(t, []string{"modified a"}, changes, "of the old size and time")
	require.Equal(t, 5, b.keeper().read)
}

func TestKeeperSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.write("big", "x", 0o644)
	b.looks()
	require.NoError(t, os.Truncate(b.workspace("big"), workspaceFileBytes+1))
	require.NoError(t, os.Symlink("/etc/passwd", b.workspace("link")))
	require.NoError(t, os.Symlink("big", b.workspace("good")))
	changes, left := b.looks()
	require.Empty(t, changes)
	require.Equal(t, `not kept of the workspace: "big", over 1024 MiB; symlink "link", which leads outside`, left)
	require.Equal(t, int64(1), b.archived()["big"].Size, "what was archived stays")
	// A link takes a file's place.
	b.write("was", "x", 0o644)
	b.looks()
	require.NoError(t, os.Remove(b.workspace("was")))
	require.NoError(t, os.Symlink("big", b.workspace("was")))
	changes, left = b.looks()
	require.Equal(t, []string{"deleted was"}, changes)
	out := b.turn(b.ask(1, "words 1"))
	require.Equal(t, left, out.ArchiveBehind)
	b.end()
}

func TestKeeperTellsText(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.write("1-text", "héllo", 0o644)
	b.write("2-binary", "\x00\x01", 0o644)
	b.write("3-latin", "h\xe9llo", 0o644)
	b.write("4-long", strings.Repeat("x", toldFileBytes+1), 0o644)
	b.write("5-empty", "", 0o644)
	k := b.keeper()
	news, _, err := k.sync(t.Context())
	require.NoError(t, err)
	events := k.teller.tell(news)
	require.Len(t, events, 5)
	var contents []*string
	for _, ev := range events {
		f := ev.Payload.(event.FileCreated)
		require.NotEmpty(t, f.SHA256)
		contents = append(contents, f.Content)
	}
	require.Equal(t, []*string{event.Text("héllo"), nil, nil, nil, event.Text("")}, contents)
}

// The workspace follows the session into its next sandbox; what came about
// behind the last turn too, and what was deleted not.
func TestWorkspaceFollows(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	binary := string(bytes.Repeat([]byte{0, 255, 10}, 1000))
	b.write("deep/run", binary, 0o755)
	b.write("gone", "x", 0o600)
	require.Empty(t, b.turn(b.ask(1, "words 1")).ArchiveBehind)
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
	changes, _ := b.looks()
	require.Empty(t, changes, "what came back is no news")
}

// A folder of the user's is never read.
func TestKeeperLeavesTheUsersFolderAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.Workspace = t.TempDir()
	b.begin()
	b.create()
	require.NoError(t, os.WriteFile(filepath.Join(b.agent.Workspace, "mine"), []byte("x"), 0o600))
	b.turn(b.ask(1, "words 1"))
	b.end()
	require.Empty(t, b.archived())
	require.Empty(t, fileChanges(b.events()))
	require.FileExists(t, filepath.Join(b.agent.Workspace, "mine"))
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound, "%v", sb)
}
