package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
)

const (
	mainPath = ".claude/projects/p/native.jsonl"
	subPath  = ".claude/projects/p/native/subagents/agent-a1.jsonl"
	metaPath = ".claude/projects/p/native/subagents/agent-a1.meta.json"
)

func archiving(t *testing.T) (*archiver, *memory, *archive.Archive) {
	t.Helper()
	_, store := fresh(t)
	epoch, err := store.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)
	sb := &memory{files: map[string]string{}}
	return newArchiver(store, &host.Agent{
		Adapter: claude.New(), Sandbox: sb, Epoch: epoch, Launch: adapters.Launch{SessionID: "s1", NativeID: "native"},
	}, 0, quiet()), sb, store
}

func sizes(infos []archive.TranscriptInfo) map[string]int64 {
	m := map[string]int64{}
	for _, i := range infos {
		m[i.ID] = i.Size
	}
	return m
}

// Whole lines are archived, each byte once; a torn line waits for its end.
func TestArchiverAppends(t *testing.T) {
	t.Parallel()
	r, sb, store := archiving(t)
	grown, err := r.sync(t.Context())
	require.NoError(t, err)
	require.Empty(t, grown, "there is no transcript")

	sb.put(mainPath, "torn")
	grown, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Empty(t, grown)

	sb.put(mainPath, "torn line\nnext")
	grown, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"main": 10}, sizes(grown))

	long := "torn line\nnext line\n" + strings.Repeat("line\n", 1000)
	sb.put(mainPath, long)
	sb.put(subPath, "sub\n")
	grown, err = r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"main": int64(len(long)), "a1": 4}, sizes(grown))

	again, err := r.sync(t.Context())
	require.NoError(t, err)
	require.Empty(t, again, "nothing new")

	// A later turn has another archiver, which reads the archive.
	sb.put(mainPath, long+"end\n")
	next := newArchiver(store, r.agent, 0, quiet())
	in, err := host.NewHome(t.Context(), sb).OpenAt(mainPath, int64(len(long)))
	require.NoError(t, err)
	data, err := io.ReadAll(in)
	require.NoError(t, errors.Join(err, in.Close()))
	require.Equal(t, "end\n", string(data))
	grown, err = next.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"main": int64(len(long)) + 4}, sizes(grown))

	// The first archiver syncs again: what is already archived is no error.
	_, err = r.sync(t.Context())
	require.NoError(t, err)
	infos, err := store.Transcripts(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"main": int64(len(long)) + 4, "a1": 4}, sizes(infos))
}

// A file that is rewritten is archived whole, and reported as changed even if it is as long
// as before.
func TestArchiverSnapshots(t *testing.T) {
	t.Parallel()
	r, sb, store := archiving(t)
	sb.put(mainPath, "m\n")
	for _, content := range []string{`{"a":1}`, `{"a":2}`, `{}`} {
		sb.put(metaPath, content)
		grown, err := r.sync(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(len(content)), sizes(grown)["a1.meta"], "%s is news", content)
		grown, err = r.sync(t.Context())
		require.NoError(t, err)
		require.Empty(t, grown)
	}
	for f, err := range store.RestoreFiles(t.Context(), "s1", r.agent.Epoch) {
		require.NoError(t, err)
		if f.ID == "a1.meta" {
			require.EqualValues(t, 2, f.Size)
		}
	}
}

// A newer epoch fences the archiver; a sandbox that can't be read is an error.
func TestArchiverErrors(t *testing.T) {
	t.Parallel()
	r, sb, store := archiving(t)
	sb.put(mainPath, "m\n")
	_, err := store.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)
	_, err = r.sync(t.Context())
	require.ErrorIs(t, err, archive.ErrFenced)
	require.ErrorContains(t, err, "archive session s1")
	sb.fail = errors.New("gone")
	_, err = r.sync(t.Context())
	require.ErrorContains(t, err, "gone")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sb.fail = nil
	_, err = newArchiver(store, r.agent, 0, quiet()).sync(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A worker may die when a turn's end is streamed and in the checkpoint, and not archived
// yet. The next attempt archives what the turn left; a further one has nothing to do.
func TestATurnIsArchivedByTheNextAttempt(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 2")
	first := b.turn(in)
	files, err := filepath.Glob(b.file(".claude", "projects", "*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	late := func(line string) {
		f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"type":"summary","summary":"` + line + `"}` + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	archived := func() string {
		r, err := b.store.ReadTranscript(t.Context(), b.agent.SessionID, "main")
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, errors.Join(err, r.Close()))
		return string(data)
	}
	for n, unarchived := range []bool{true, false} {
		// The sync after the turn must be over before there is more to archive.
		b.host.Wait()
		checkpoint, err := b.host.Checkpoints.Load(b.sandbox.ID)
		require.NoError(t, err)
		require.False(t, checkpoint.Unarchived)
		checkpoint.Unarchived = unarchived
		require.NoError(t, b.host.Checkpoints.Save(b.sandbox.ID, checkpoint))
		line := fmt.Sprintf("late %d", n)
		late(line)
		again, err := b.attempt(t.Context(), 2+n, in)
		require.NoError(t, err)
		require.Equal(t, first.Result, again.Result)
		require.Equal(t, unarchived, strings.Contains(archived(), line))
	}
	b.requireOnce(1)
	b.end()
}

// TestAnEndIsArchivedWithoutItsStream: what only the stream had of a turn reaches the
// archive, though its worker died before that and the stream was deleted since.
func TestAnEndIsArchivedWithoutItsStream(t *testing.T) {
	t.Parallel()
	b, says := leased(t, time.Minute)
	in := b.ask(1, "words 2 die")
	ctx, dies := context.WithCancel(t.Context())
	says.onEnd = dies
	_, err := b.attempt(ctx, 1, in)
	require.Error(t, err)
	own, err := b.store.ServerEntries(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	require.Empty(t, own, "the worker died before")
	b.log, _ = fresh(t)
	says.onEnd = nil
	b.worker()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Failed, out.Result.Outcome)
	own, err = b.store.ServerEntries(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	said := func(what func(event.Block) bool) func(archive.ServerEntry) bool {
		return func(e archive.ServerEntry) bool {
			p, ok := e.Event.Payload.(event.BlockUpsert)
			return ok && what(p.Block)
		}
	}
	require.True(t, slices.ContainsFunc(own, said(reducer.Lost)), "the text that the agent did not persist")
	require.True(t, slices.ContainsFunc(own, said(func(b event.Block) bool { return b.Type == event.BlockError })), "why the turn failed")
}

// TestWhatIsKeptOfALostHostOutlivesTheStream: a turn in a new sandbox keeps an earlier
// message that nothing else has; then the stream is deleted, and the turn's worker dies.
func TestWhatIsKeptOfALostHostOutlivesTheStream(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 4000")
	in.Unarchived = &session.Unarchived{Messages: []session.Message{{ID: "m0", Text: "asked on the lost host"}}}
	ctx, dies := context.WithCancel(t.Context())
	defer dies()
	done := b.aside(ctx, 1, in)
	last := b.until(b.last, is[event.BlockDelta]).Context.Seq
	require.NoError(t, b.log.Purge(t.Context(), b.agent.SessionID))
	require.Eventually(t, func() bool {
		tail, err := b.log.Tail(t.Context(), b.agent.SessionID)
		return err == nil && tail.LastSeq > last
	}, time.Minute, time.Millisecond, "the turn goes on")
	dies()
	require.Error(t, (<-done).err)
	b.worker()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Completed, out.Result.Outcome)
	own, err := b.store.ServerEntries(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(own, func(e archive.ServerEntry) bool {
		p, ok := e.Event.Payload.(event.BlockUpsert)
		return ok && p.Block.ID == "m0" && *p.Block.Content == "asked on the lost host"
	}))
}

// TestTheSpoolOfArchivedTurnsIsFreed: an agent that works for days does not fill the disk
// with what was streamed and archived. A new worker's turn continues behind it.
func TestTheSpoolOfArchivedTurnsIsFreed(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	first := func() int64 {
		status, err := b.host.Connected(b.sandbox.ID).Conn.Status(t.Context())
		require.NoError(t, err)
		return status.SpoolFirst
	}
	b.turn(b.ask(1, "words 1"))
	require.Zero(t, first(), "the segment that is written to is kept")
	// A file that is never kept does not keep the spool.
	require.NoError(t, os.Symlink("/", b.workspace("link")))
	out := b.turn(b.ask(2, "big 17 words 1"))
	require.Contains(t, out.NotKept, "leads outside")
	require.Empty(t, out.ArchiveBehind)
	require.Greater(t, first(), int64(16<<20))
	b.worker()
	b.turn(b.ask(3, "words 1"))
	b.requireOnce(3)
	b.end()
}

// The turns of an agent share its archiver; the next agent has another, and none outlives
// its sandbox.
func TestAnAgentHasOneArchiver(t *testing.T) {
	t.Parallel()
	h := bare(t)
	b := withSandbox(t)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	first, next := &host.Agent{Sandbox: sb}, &host.Agent{Sandbox: sb}
	of := h.archiverOf(first)
	require.Same(t, of, h.archiverOf(first))
	require.NotSame(t, of, h.archiverOf(next))
	require.Same(t, next, h.archiverOf(next).agent)
	h.forget(b.sandbox.ID)
	require.Empty(t, h.archivers)
}

// What an agent writes after its turn is archived later, by the next turn if that has begun.
func TestLastLinesAreArchivedLater(t *testing.T) {
	t.Parallel()
	h := bare(t)
	r, sb, _ := archiving(t)
	sb.put(mainPath, "first\n")
	turn := r.turns.Load()
	h.syncLater(t.Context(), r, turn)
	require.EqualValues(t, 6, r.known["main"].Size)

	newSyncing(r).stop()
	sb.put(mainPath, "first\nlast\n")
	h.syncLater(t.Context(), r, turn)
	require.EqualValues(t, 6, r.known["main"].Size, "the next turn has begun")
	grown, err := r.sync(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"main": 11}, sizes(grown))
}
