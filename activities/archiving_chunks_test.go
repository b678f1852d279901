package activities

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
)

func archived(t *testing.T, store *archive.Archive, id string) string {
	t.Helper()
	r, err := store.ReadTranscript(t.Context(), "s1", id)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}

// A transcript is archived in chunks of whole lines; a line longer than a chunk is archived
// only when it is complete.
func TestTranscriptsAreArchivedInChunks(t *testing.T) {
	t.Parallel()
	r, sb, store := archiving(t)
	r.memory = 8 * 64
	require.Equal(t, 64, r.memory.chunk())
	whole := strings.Repeat("a line of some words\n", 100)
	sb.put(mainPath, whole+"torn")
	grown, err := r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{event.Main: int64(len(whole))}, sizes(grown))

	long := whole + "torn" + strings.Repeat("x", 1000)
	sb.put(mainPath, long)
	grown, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Empty(t, grown, "the line may yet be torn")
	require.Equal(t, whole, archived(t, store, event.Main))

	sb.put(mainPath, long+"\nend\nnext")
	grown, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Len(t, grown, 1)
	require.Equal(t, long+"\nend\n", archived(t, store, event.Main))
}

// A sync that fails in the middle is continued where it stopped.
func TestArchivingResumes(t *testing.T) {
	t.Parallel()
	r, sb, store := archiving(t)
	r.memory = 8 * 64
	whole := strings.Repeat("a line of some words\n", 100)
	sb.put(mainPath, whole)
	c := chunker{home: host.NewHome(t.Context(), sb), path: mainPath, limit: 64}
	require.NoError(t, c.open())
	defer c.close()
	at, data, err := c.next()
	require.NoError(t, err)
	_, err = r.sync(t.Context())
	require.NoError(t, err)
	_, err = store.AppendTranscript(t.Context(), "s1", r.agent.Epoch, r.known[event.Main].Transcript, at, data)
	require.NoError(t, err, "what is archived already is no error")
	sb.put(mainPath, whole+"more\n")
	_, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, whole+"more\n", archived(t, store, event.Main))
}

// A file that can only be archived whole, and is over the limit, is skipped; the others are
// archived.
func TestHugeSnapshotsAreLeftOut(t *testing.T) {
	t.Parallel()
	r, sb, _ := archiving(t)
	r.memory = 8 * 64
	sb.put(mainPath, "line\n")
	sb.put(subPath, "sub\n")
	sb.put(metaPath, strings.Repeat("x", 65))
	grown, err := r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{event.Main: 5, "a1": 4}, sizes(grown))
}

// A transcript that a tool has made terabytes long, which takes no disk, is named and left
// out. The rest is archived, and the sandbox ends.
func TestHugeTranscriptsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	require.Empty(t, b.turn(b.ask(1, "words 1")).ArchiveBehind)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	main, err := filepath.Glob(filepath.Join(info.Paths.Home, ".claude/projects/*/*.jsonl"))
	require.NoError(t, err)
	require.Len(t, main, 1)
	subagents := filepath.Join(strings.TrimSuffix(main[0], ".jsonl"), "subagents")
	require.NoError(t, os.MkdirAll(subagents, 0o700))
	huge := filepath.Join(subagents, "agent-huge.jsonl")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 8<<40))
	require.Contains(t, b.turn(b.ask(2, "words 1")).ArchiveBehind, "agent-huge.jsonl: the file is too large")
	name, err := filepath.Rel(info.Paths.Home, huge)
	require.NoError(t, err)
	in, err := host.NewHome(t.Context(), sb).OpenAt(name, host.MaxFile-5)
	require.NoError(t, err)
	data, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Len(t, data, 5)
	require.NoError(t, in.Close())
	b.end()
	restored, err := b.store.Transcripts(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(restored, func(i archive.TranscriptInfo) bool { return i.ID == event.Main }))
	require.False(t, slices.ContainsFunc(restored, func(i archive.TranscriptInfo) bool { return i.ID == "huge" }))
}
