package folder

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/test/storetest"
)

// The archive's store is one interface with one suite, and a folder passes it as S3 does.
func TestR137StoreIsAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "archive")
	storetest.Run(t, func() store.Store { return opened(t, dir) })
}

func opened(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	require.NoError(t, err)
	return f
}

func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	f := opened(t, t.TempDir())
	require.NoError(t, f.Setup(t.Context()))
	for _, key := range []string{"", ".", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".locks/1", "a/.b", `a\b`} {
		require.ErrorContains(t, f.Put(t.Context(), key, nil), "want a relative path", key)
		_, _, err := f.Get(t.Context(), key)
		require.ErrorContains(t, err, "want a relative path", key)
		_, err = f.GetRange(t.Context(), key, 0, 1)
		require.ErrorContains(t, err, "want a relative path", key)
	}
	for _, err := range f.List(t.Context(), "../x/", "", false) {
		require.ErrorContains(t, err, "want a relative path")
	}
	_, err := Open("relative")
	require.ErrorContains(t, err, "want an absolute path")
}

// What a writer that was killed has left is no object, and is deleted when it is old.
func TestDraftsThatAreLeft(t *testing.T) {
	t.Parallel()
	f := opened(t, t.TempDir())
	require.NoError(t, f.Setup(t.Context()))
	old, fresh := filepath.Join(f.dir, drafts, "old"), filepath.Join(f.dir, drafts, "fresh")
	for _, draft := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(draft, []byte("half"), 0o600))
	}
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*draftAge)))
	require.NoError(t, f.Setup(t.Context()))
	require.NoFileExists(t, old)
	require.FileExists(t, fresh, "its writer may be at work")
	for o, err := range f.List(t.Context(), "", "", false) {
		require.NoError(t, err)
		require.Fail(t, "there is an object", "%s", o.Name)
	}
}

func TestAFolderThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	f := opened(t, filepath.Join(file, "below"))
	err := f.Setup(t.Context())
	var c *store.ConnectError
	require.ErrorAs(t, err, &c)
	require.Contains(t, c.Hint, "SOJOURN_ARCHIVE_DIR")
	require.ErrorContains(t, err, f.dir)
	there, err := f.Exists(t.Context())
	require.NoError(t, err)
	require.False(t, there)
	require.Error(t, f.Put(t.Context(), "a", nil), "without Setup nothing is written")
}
