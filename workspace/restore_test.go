package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
)

// copies is a sandbox whose CopyIn is another one.
type copies struct {
	sandbox.Sandbox
	in func(context.Context, iter.Seq2[sandbox.File, error]) error
}

func (c copies) CopyIn(ctx context.Context, _ sandbox.Area, files iter.Seq2[sandbox.File, error]) error {
	return c.in(ctx, files)
}

// without is a CopyIn that skips a path, as a file system that does not take its name.
func without(sb sandbox.Sandbox, path string) copies {
	return copies{sb, func(ctx context.Context, files iter.Seq2[sandbox.File, error]) error {
		err := sb.CopyIn(ctx, sandbox.AreaWorkspace, func(yield func(sandbox.File, error) bool) {
			for f, err := range files {
				if f.Path != path && !yield(f, err) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		return &sandbox.SkippedError{Files: []sandbox.SkippedFile{{Path: path, Err: fmt.Errorf("write %s: %w", path, syscall.ENAMETOOLONG)}}}
	}}
}

// next makes a sandbox whose files are not restored yet.
func (b *bench) next() {
	b.t.Helper()
	b.epoch = take(b.t, b.archive, "s1")
	var err error
	b.sb, err = b.provider.Create(b.t.Context(), sandbox.Spec{ID: fmt.Sprintf("s1-e%d", b.epoch), SessionID: "s1", Epoch: b.epoch})
	require.NoError(b.t, err)
	b.forget()
}

// A host that can't write a file fails the restore, and the archive keeps everything.
func TestRestoreFailsOnAFullHost(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("a", "one", 0o644)
	b.write("b", "two", 0o644)
	b.end()

	b.next()
	b.sb = copies{b.sb, func(_ context.Context, files iter.Seq2[sandbox.File, error]) error {
		for _, err := range files {
			require.NoError(t, err)
		}
		return fmt.Errorf("copy in: write b: %w", syscall.ENOSPC)
	}}
	b.forget()
	_, err := b.Provision(t.Context(), sandbox.Files())
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, b.sb.Terminate(t.Context()))

	b.create()
	require.FileExists(t, b.path("a"))
	require.FileExists(t, b.path("b"))
}

// What a sandbox can't have stays in the archive, and comes back in one that can; what the
// agent removed there does not.
func TestRestoreHoldsWhatASandboxCannotHave(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("odd", "one", 0o644)
	b.write("plain", "two", 0o644)
	b.end()

	b.next()
	b.sb = without(b.sb, "odd")
	b.forget()
	left, err := b.Provision(t.Context(), sandbox.Files())
	require.NoError(t, err)
	require.Contains(t, left, `"odd", which could not be restored and stays as it is archived: write odd: file name too long`)
	require.FileExists(t, b.path("plain"))
	reason := "file name too long"
	for range 2 {
		changes, left := b.changes()
		require.Empty(t, changes)
		require.Contains(t, left, `"odd", which could not be restored`)
		require.Contains(t, left, reason)
		reason = "" // it is not in the archive
		require.True(t, b.archived()["odd"].Held)
		b.forget() // another worker knows it from the archive
	}
	b.end()

	b.create()
	require.FileExists(t, b.path("odd"))
	require.False(t, b.archived()["odd"].Held)
	require.NoError(t, os.Remove(b.path("odd")))
	changes, left := b.changes()
	require.Equal(t, []string{"deleted odd"}, changes)
	require.Empty(t, left)
	require.NotContains(t, b.archived(), "odd")
}

// A damaged file is left out and stays as it is archived. If the agent writes it again with
// the same content, that is not taken from the damaged place.
func TestRestoreLeavesOutWhatIsDamaged(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	contents := map[string]string{"bad1": "first content", "bad2": "second content", "good": "third content"}
	for name, content := range contents {
		b.write(name, content, 0o644)
	}
	b.end()
	w := openStore(t, b.archive, "s1", 0)
	for _, f := range w.Files()[:2] {
		pack := packsFolder + f.pieces[0].Pack
		data, _, err := w.objects.Get(t.Context(), pack)
		require.NoError(t, err)
		data[f.pieces[0].At]++
		require.NoError(t, w.objects.Put(t.Context(), pack, data))
	}

	b.next()
	left, err := b.Provision(t.Context(), sandbox.Files())
	require.NoError(t, err)
	require.Contains(t, left, "archive is corrupt")
	require.NoFileExists(t, b.path("bad1"))
	require.FileExists(t, b.path("good"))
	_, left = b.changes()
	require.Contains(t, left, `"bad1", which could not be restored and stays as it is archived: `)
	require.Contains(t, left, `"bad2", which could not be restored`)
	require.Contains(t, left, "archive is corrupt")
	require.Len(t, b.archived(), 3)

	b.write("bad1", contents["bad1"], 0o644)
	b.changes()
	b.forget()
	b.write("bad2", contents["bad2"], 0o644)
	_, left = b.changes()
	require.Empty(t, left)
	for name, content := range contents {
		_, got, err := ReadFile(t.Context(), b.archive, "s1", name)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
}

// reads is a sandbox whose CopyOut is another one.
type reads struct {
	sandbox.Sandbox
	out func(iter.Seq2[sandbox.File, error]) iter.Seq2[sandbox.File, error]
}

func (r reads) CopyOut(ctx context.Context, sel sandbox.Selection) iter.Seq2[sandbox.File, error] {
	return r.out(r.Sandbox.CopyOut(ctx, sel))
}

// A time that some file systems have, and JSON does not, keeps nothing from the archive.
func TestSyncerTakesAnyTime(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("late", "x", 0o644)
	b.write("early", "x", 0o644)
	b.write("known", "x", 0o644)
	b.sb = reads{b.sb, func(files iter.Seq2[sandbox.File, error]) iter.Seq2[sandbox.File, error] {
		return func(yield func(sandbox.File, error) bool) {
			for f, err := range files {
				switch f.Path {
				case "late":
					f.ModTime = time.Unix(1e12, 0)
				case "early":
					f.ModTime = time.Unix(-1e12, 0)
				}
				if !yield(f, err) {
					return
				}
			}
		}
	}}
	b.forget()
	b.changes()
	require.Zero(t, b.archived()["late"].ModTime)
	require.Zero(t, b.archived()["early"].ModTime)
	require.NotZero(t, b.archived()["known"].ModTime)
}

// TestSyncerOfAHostThatIsShort: where the host had no descriptor left for a folder or a file,
// nothing is named as unreadable: the sync has failed, and the next one has all.
func TestSyncerOfAHostThatIsShort(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("a", "one", 0o644)
	b.changes()
	whole := b.sb
	for name, short := range map[string]func(sandbox.File) (sandbox.File, error){
		"folder": func(sandbox.File) (sandbox.File, error) { return sandbox.File{}, sandbox.ErrShort },
		"file": func(f sandbox.File) (sandbox.File, error) {
			f.Body = iotest.ErrReader(sandbox.ErrShort)
			return f, nil
		},
	} {
		b.sb = reads{whole, func(files iter.Seq2[sandbox.File, error]) iter.Seq2[sandbox.File, error] {
			return func(yield func(sandbox.File, error) bool) {
				for f, err := range files {
					if f.Path == "a" {
						f, err = short(f)
					}
					if !yield(f, err) {
						return
					}
				}
			}
		}}
		b.write("a", name, 0o644)
		b.forget()
		_, left, err := b.SyncLast(t.Context())
		require.ErrorIs(t, err, sandbox.ErrShort, name)
		_, unread := errors.AsType[*ReadError](err)
		require.False(t, unread, name)
		require.Empty(t, left, name)
		b.sb = whole
		b.forget()
		b.changes()
		_, content, err := ReadFile(t.Context(), b.archive, "s1", "a")
		require.NoError(t, err)
		require.Equal(t, name, string(content))
	}
}

// What was read of a workspace until something could not be read is archived.
func TestSyncerArchivesWhatItCanRead(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	b.write("a", "one", 0o644)
	b.write("z", "one", 0o644)
	b.changes()
	b.write("a", "two", 0o600)
	broken := &fs.PathError{Op: "lstat", Path: "b", Err: syscall.EIO}
	b.sb = reads{b.sb, func(files iter.Seq2[sandbox.File, error]) iter.Seq2[sandbox.File, error] {
		return func(yield func(sandbox.File, error) bool) {
			for f, err := range files {
				if f.Path == "z" {
					yield(sandbox.File{}, broken)
					return
				}
				if !yield(f, err) {
					return
				}
			}
		}
	}}
	b.forget()
	seen, _, err := b.SyncLast(t.Context())
	require.ErrorIs(t, err, syscall.EIO)
	_, unread := errors.AsType[*ReadError](err)
	require.True(t, unread)
	require.Equal(t, []string{"modified a"}, fileChanges(published(t, &b.Notifier, seen...)))
	_, content, err := ReadFile(t.Context(), b.archive, "s1", "a")
	require.NoError(t, err)
	require.Equal(t, "two", string(content))
	require.Contains(t, b.archived(), "z")
}
