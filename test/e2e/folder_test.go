package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/teststack"
)

// A session whose archive is a folder: it is shown, reopened and deleted as in S3, which nothing
// asks, and its agent does not see the folder.
func TestR137ArchiveInAFolder(t *testing.T) {
	inOwnNamespace(t)
	beside, err := os.MkdirTemp("/var/tmp", "sojourn-e2e-") // agents have a folder for temporary files of their own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(beside)) })
	require.NoError(t, os.WriteFile(filepath.Join(beside, "seen"), nil, 0o600))
	dir := filepath.Join(beside, "archive")
	settings := []string{"SOJOURN_ARCHIVE_DIR=" + dir, "AWS_ENDPOINT_URL_S3=http://" + teststack.ClosedAddress(t)}
	startWorker(t, settings...)
	run := func(args ...string) string {
		t.Helper()
		s := runProgram(t, "sojourn", "", settings, args...)
		require.Zero(t, s.code, "sojourn %s: %s", strings.Join(args, " "), s.err)
		return strings.TrimSpace(s.out)
	}
	require.Contains(t, run("doctor"), "folder "+dir)
	id := run("new", "--agent", anyAgent(t), "--title", "In a folder")
	require.Contains(t, run("send", id, "--follow", "SAY remember the word tangerine"), "tangerine")
	large := "SAY large " + strings.Repeat("x", 40<<10)
	require.Contains(t, run("send", id, "--follow", large), "large")
	require.NotEmpty(t, filesOf(t, dir, "/payloads/"), "what is too large for Temporal's history is there too")
	looked := run("send", id, "--follow", "TOOL bash: echo files=$(find "+beside+" -type f | wc -l) in all")
	require.Contains(t, looked, "files=1 in all", "its agent sees what is beside the archive alone")
	require.Contains(t, run("send", id, "--follow", "TOOL bash: echo kept > kept.txt"), "kept")
	run("close", id)

	shown := run("show", id)
	require.Contains(t, shown, "tangerine")
	require.Contains(t, run("files", id), "kept.txt")
	require.Contains(t, run("ls", "--all"), "In a folder")
	run("open", id)
	require.Contains(t, run("send", id, "--follow", "RECALL"), "tangerine", "the agent has its transcript again")
	run("close", id)
	run("delete", id, "--yes")
	require.Empty(t, filesOf(t, dir, id))
}

// filesOf returns the files below a folder whose paths have a part.
func filesOf(t *testing.T, dir, part string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, part) {
			found = append(found, path)
		}
		if os.IsNotExist(err) {
			return nil // deleted meanwhile
		}
		return err
	})
	require.NoError(t, err)
	return found
}
