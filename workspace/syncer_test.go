package workspace

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestSyncerFindsWhatChanged(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("a.txt", "one", 0o644)
	b.write("bin/run", "#!/bin/sh\n", 0o755)
	b.write("node_modules/x/index.js", "cache", 0o644)
	b.write(".git/HEAD", "ref", 0o644)
	changes, left := b.changes()
	require.Empty(t, left)
	require.Equal(t, []string{"created a.txt", "created bin/run"}, changes, "a repository's inner files are kept and not told")
	require.Equal(t, []string{".git/HEAD", "a.txt", "bin/run"}, slices.Sorted(maps.Keys(b.archived())))
	require.Equal(t, fs.FileMode(0o755), b.archived()["bin/run"].Mode)
	changes, _ = b.changes()
	require.Empty(t, changes)

	b.write("a.txt", "two", 0o644) // of the same size, in the same tick
	require.NoError(t, os.Chmod(b.path("bin", "run"), 0o700))
	changes, _ = b.changes()
	require.Equal(t, []string{"modified a.txt", "modified bin/run"}, changes)

	// A folder replaces a file, and the next worker remembers nothing.
	require.NoError(t, os.Remove(b.path("a.txt")))
	b.write("a.txt/in", "three", 0o644)
	b.forget()
	changes, _ = b.changes()
	require.Equal(t, []string{"created a.txt/in", "deleted a.txt"}, changes)
	require.Equal(t, []string{".git/HEAD", "a.txt/in", "bin/run"}, slices.Sorted(maps.Keys(b.archived())))
}

// A path that is longer than the archive takes keeps no other file from it.
func TestSyncerLeavesOutPathsThatAreTooLong(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("kept.txt", "kept", 0o644)
	nest := exec.Command("sh", "-c", "n="+strings.Repeat("n", 50)+`; i=0; while [ $i -lt 90 ]; do mkdir $n && cd -P $n || break; i=$((i+1)); done`)
	nest.Dir = b.path()
	out, err := nest.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, left := b.changes()
	require.Contains(t, left, "whose path is")
	require.Contains(t, b.archived(), "kept.txt")
}

// A settled file is not read again, whatever times it was given.
func TestSyncerReadsWhatChangedOnly(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	began := time.Now()
	b.write("a", "one", 0o644)
	b.write("b", "one", 0o644)
	changes, _ := b.changes()
	require.Equal(t, []string{"created a", "created b"}, changes)
	young := time.Since(began) < settled
	changes, _ = b.changes()
	require.Empty(t, changes)
	if young {
		require.Equal(t, 4, b.reads, "so young a file may have changed since")
	}
	b.settle()
	before := b.reads
	info, err := os.Stat(b.path("a"))
	require.NoError(t, err)
	b.write("a", "two", 0o644)
	require.NoError(t, os.Chtimes(b.path("a"), info.ModTime(), info.ModTime()))
	changes, _ = b.changes()
	require.Equal(t, []string{"modified a"}, changes, "of the old size and time")
	require.Equal(t, before+1, b.reads)
}

func TestSyncerSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("big", "x", 0o644)
	b.changes()
	require.NoError(t, os.Truncate(b.path("big"), maxFileBytes+1))
	require.NoError(t, os.Symlink("/etc/passwd", b.path("link")))
	require.NoError(t, os.Symlink("big", b.path("good")))
	changes, left := b.changes()
	require.Empty(t, changes)
	require.Equal(t, `not kept of the workspace: "big", over 1024 MiB; symlink "link", which leads outside`, left)
	require.Equal(t, int64(1), b.archived()["big"].Size, "what was archived stays")
	// A link replaces a file.
	b.write("was", "x", 0o644)
	b.changes()
	require.NoError(t, os.Remove(b.path("was")))
	require.NoError(t, os.Symlink("big", b.path("was")))
	changes, left = b.changes()
	require.Equal(t, []string{"deleted was"}, changes)
	require.Equal(t, `not kept of the workspace: "big", over 1024 MiB; symlink "link", which leads outside`, left)
	b.end()
}

func TestSyncerTellsText(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("1-text", "héllo", 0o644)
	b.write("2-binary", "\x00\x01", 0o644)
	b.write("3-latin", "h\xe9llo", 0o644)
	b.write("4-long", strings.Repeat("x", maxEventFileBytes+1), 0o644)
	b.write("5-empty", "", 0o644)
	seen, _, err := b.Sync(t.Context())
	require.NoError(t, err)
	events := published(t, &b.Notifier, seen...)
	require.Len(t, events, 5)
	var contents []*string
	for _, ev := range events {
		f := ev.Payload.(event.FileCreated)
		require.NotEmpty(t, f.SHA256)
		contents = append(contents, f.Content)
	}
	require.Equal(t, []*string{new("héllo"), nil, nil, nil, new("")}, contents)
}

// Files that come and go, each under a name of its own, are forgotten by the next sync. What
// exists and what went while it ran are not.
func TestSyncerForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("stays", "x", 0o644)
	changes, _ := b.changes()
	require.Equal(t, []string{"created stays"}, changes)
	const files = 100_000
	for i := range files {
		name, at := fmt.Sprint("tmp/", i), time.Now()
		events := published(t, &b.Notifier, Observation{Path: name, SHA256: "1", At: at}, Observation{Path: name, Gone: true, At: at})
		require.Len(t, events, 2)
	}
	during := time.Now().Add(time.Hour)
	published(t, &b.Notifier, Observation{Path: "late", SHA256: "1", At: during}, Observation{Path: "late", Gone: true, At: during})
	require.Len(t, b.Notifier.published, files+2)
	b.Notifier.Keep([]Observation{{Path: "tmp/1", SHA256: "1", At: time.Now().Add(-time.Hour)}})
	_, _, err := b.Sync(t.Context())
	require.NoError(t, err)
	require.Len(t, b.Notifier.published, files+2, "an older observation is unsent")
	require.Empty(t, published(t, &b.Notifier))
	changes, _ = b.changes()
	require.Empty(t, changes)
	require.ElementsMatch(t, []string{"stays", "late"}, slices.Collect(maps.Keys(b.Notifier.published)))
	require.Empty(t, published(t, &b.Notifier, Observation{Path: "late", SHA256: "1", At: during.Add(-time.Minute)}), "what the sync saw before it went")
	require.Empty(t, published(t, &b.Notifier, Observation{Path: "tmp/1", Gone: true, At: time.Now()}), "it is gone again")
	require.Equal(t, []string{"created tmp/1"}, fileChanges(published(t, &b.Notifier, Observation{Path: "tmp/1", SHA256: "1", At: time.Now()})))
}
