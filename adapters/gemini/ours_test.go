package gemini

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

const (
	idC      = "cccccccc-0000-4000-8000-000000000003"
	idD      = "dddddddd-0000-4000-8000-000000000004"
	dayThree = "2026-01-03T10:00:30.000Z"
	dayFour  = "2026-01-04T10:00:30.000Z"
)

func homeIn(t *testing.T, dir string) adapters.DirHome {
	t.Helper()
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	return home
}

// prepared changes a home as a host does before it starts a process, and returns the
// session with which that continues.
func prepared(t *testing.T, dir string) string {
	t.Helper()
	found, err := New().Prepare(homeIn(t, dir), launch())
	require.NoError(t, err)
	for _, m := range found.Move {
		to := filepath.Join(dir, filepath.FromSlash(m.To))
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.Rename(filepath.Join(dir, filepath.FromSlash(m.From)), to))
	}
	for _, w := range found.Write {
		putFiles(t, dir, map[string]string{w.Path: replay.Repaired(t, homeIn(t, dir), w)})
	}
	return found.NativeID
}

// archived returns the ids of the sessions that a home's transcripts are of.
func archived(t *testing.T, dir string) []string {
	t.Helper()
	home := homeIn(t, dir)
	all, err := New().Transcripts(home, launch())
	require.NoError(t, err)
	var ids []string
	for _, tr := range all {
		c, err := survey(home, tr.Path, glance)
		require.NoError(t, err)
		ids = append(ids, c.session)
	}
	return ids
}

func runs(t *testing.T, dir, id, started, prompt string) {
	t.Helper()
	putFiles(t, dir, map[string]string{chatDir + "session-" + started[:10] + "T10-00-" + shortID(id) + chatSuffix: chatText(id, started, prompt)})
}

// Sessions that a tool has with the same program are not the conversation's: they
// are neither continued nor archived.
func TestASessionOfATool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Empty(t, prepared(t, dir))
	runs(t, dir, idA, dayOne, "one")
	runs(t, dir, idB, dayTwo, "of-a-tool")
	require.Equal(t, []string{idA}, archived(t, dir))

	// The worker was killed when it had moved the file and written nothing.
	moved := t.TempDir()
	require.NoError(t, os.CopyFS(moved, os.DirFS(dir)))
	require.Equal(t, idA, prepared(t, moved))
	require.NoError(t, os.WriteFile(filepath.Join(moved, notesFile), []byte(`{"ours":[],"others":[]}`), 0o600))
	require.Equal(t, []string{idA}, archived(t, moved))
	require.Equal(t, idA, prepared(t, moved))

	// The process loads the session, so it opens none.
	require.Equal(t, idA, prepared(t, dir))
	loaded := filepath.Join(dir, filepath.FromSlash(path.Join(chatDir, idleName(0, shortID(idA)))))
	before, err := os.ReadFile(loaded)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(loaded, append(before, `{"$set":{"sessionId":"`+idA+`"}}`+"\n"...), 0o600))
	runs(t, dir, idC, dayThree, "of-a-tool-too")
	require.Equal(t, []string{idA}, archived(t, dir))
	require.Equal(t, idA, prepared(t, dir))

	// It can't load it, so it opens another.
	runs(t, dir, idD, dayFour, "two")
	require.Equal(t, []string{idA, idD}, archived(t, dir))
	require.Equal(t, idD, prepared(t, dir))
	require.Equal(t, []string{idA, idD}, archived(t, dir))
}

// A home of an older build has no notes: what is in it was the conversation's.
func TestSessionsOfAnOlderBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs(t, dir, idA, dayOne, "one")
	runs(t, dir, idB, dayTwo, "two")
	require.Equal(t, []string{idA, idB}, archived(t, dir))
	require.Equal(t, idB, prepared(t, dir))
	require.Equal(t, []string{idA, idB}, archived(t, dir))
}

// Notes that a tool has spoiled are as none.
func TestSpoiledNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{notesFile: "{"})
	runs(t, dir, idA, dayOne, "one")
	require.Equal(t, idA, prepared(t, dir))
}
