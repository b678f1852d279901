package starter

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/workspace"
)

// A damaged file is named, and keeps none behind it from being copied.
func TestFilesAreCopiedAroundDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	torn := fmt.Errorf("workspace file %q: %w", "bad", archive.ErrCorrupt)
	var done copied
	err = done.all(root, func(yield func(workspace.Content, error) bool) {
		_ = yield(workspace.Content{File: workspace.File{Path: "bad", Size: 8}, Body: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(torn))}, nil) &&
			yield(workspace.Content{File: workspace.File{Path: "d/good", Size: 4}, Body: strings.NewReader("good")}, nil)
	})
	require.ErrorIs(t, err, archive.ErrCorrupt)
	require.ErrorContains(t, err, `"bad"`)
	require.Equal(t, copied{Files: 1, Bytes: 4}, done)
	require.NoFileExists(t, filepath.Join(dir, "bad"))
	got, err := os.ReadFile(filepath.Join(dir, "d", "good"))
	require.NoError(t, err)
	require.Equal(t, "good", string(got))
}
