package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// smallDisk mounts a file system of that size below the stack's folder. It skips the
// test if the system doesn't allow that.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir, err := os.MkdirTemp(shared.Dir, "disk-")
	require.NoError(t, err)
	if err := syscall.Mount("sojourn-test", dir, "tmpfs", 0, "size="+size); err != nil {
		skip.Without(t, fmt.Sprintf("a small disk, which root can mount: %v", err))
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill fills a disk and returns the file to remove to free the space.
func fill(t *testing.T, disk string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
	return ballast
}

// TestFullDisk: the disk of a host's data folder is full during a turn. The agent is
// ended, the turn fails with the reason, and once there is space the session continues.
func TestFullDisk(t *testing.T) {
	skip.InShort(t, "TestR114ArchiveAway has an archive that stores nothing for a while")
	withClaude(t)
	inOwnNamespace(t)
	disk := smallDisk(t, "64m")
	dir := filepath.Join(disk, "host")
	require.NoError(t, os.Mkdir(dir, 0o700))
	startWorkerIn(t, dir)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word clementine").Err())
	// What the agent says behind the gate is more than has room in the last page of a file.
	gate := "live-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gate + " THEN BIG 200000"})
	require.NoError(t, err)
	heardUntil(t, h, r.AfterSeq, nth[event.BlockDelta](1))
	ballast := fill(t, disk)
	spaceOf(t).Model.Open(gate)
	require.Eventually(t, func() bool {
		alive, err := harness.Agents(dir)
		return err == nil && len(alive) <= 1 // the runner stays for its readers
	}, patience, tick, "the agent is ended")
	require.NoError(t, os.Remove(ballast))
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Failed, res.Outcome)
	require.Contains(t, res.Error.Message, "no space left on device")
	require.Contains(t, say(t, h, "RECALL").Result.Response, "clementine")
	require.NoError(t, h.Close(testContext(t)))
}

// TestFullStore: the archive's disk is full. Turns continue, the session reports that
// its archive is behind and why, and it catches up once there is space.
func TestFullStore(t *testing.T) {
	skip.InShort(t, "TestR114ArchiveAway has an archive that stores nothing for a while")
	withClaude(t)
	inParallel(t)
	disk := smallDisk(t, "64m")
	rest := newServer(t)
	w := &world{temporal: rest, nats: rest, s3: newServerIn(t, disk)}
	w.inhabit(t)
	w.worker = startWorker(t, w.variables()...)
	h, err := w.client.Create(testContext(t), "", session.Options{Agent: "claude"})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY kept at once").Err())
	ballast := fill(t, disk)
	require.NoError(t, say(t, h, "TOOL bash: echo full").Err())
	require.NoError(t, say(t, h, "SAY not kept yet").Err())
	behind(t, h, true)
	closed := make(chan said, 1)
	ctx := testContext(t)
	go func() { closed <- runProgram(t, "sojourn", "", w.variables(), "close", h.ID()) }()
	require.Eventually(t, func() bool {
		i, err := h.Inspect(ctx)
		return err == nil && i.ArchiveBehind != ""
	}, patience, tick, "the session that closes says what it waits for")
	require.Eventually(t, func() bool {
		pending, err := h.Pending(ctx)
		return err == nil && len(pending) > 0 && pending[0].Activity == "EndSandbox" && pending[0].Attempt > 3
	}, patience, tick, "it tries again")
	require.NoError(t, os.Remove(ballast))
	told := <-closed
	require.Zero(t, told.code, told.err)
	require.Contains(t, told.err, "waits for EndSandbox: ")
	w.requireWhole(t, h, 3)
}

// TestDamageIsVisible: a byte of the agent's output is changed on disk while no worker
// is running. The next worker leaves the record out, the conversation reports that with
// the offset, and the turn is answered.
func TestDamageIsVisible(t *testing.T) {
	inOwnNamespace(t)
	dir := hostDir(t)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	w := startWorkerIn(t, dir)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, h, "SAY remember the word clementine").Err())
	gateA, gateB := "damage-a-"+uuid.NewString(), "damage-b-"+uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gateA + " THEN TOOL bash: echo meanwhile THEN GATE " + gateB + " THEN SAY whole"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gateA))
	heardUntil(t, h, r.AfterSeq, nth[event.BlockDelta](1))
	require.NoError(t, w.Kill())
	spaceOf(t).Model.Open(gateA)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gateB))
	segments, err := filepath.Glob(filepath.Join(dir, "sandboxes", h.ID()+"-*", "control", "spool", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	at := -1
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(segments[0])
		at = bytes.LastIndex(data, []byte("Running it."))
		return err == nil && at > 0
	}, patience, tick, "the runner writes what the agent printed")
	f, err := os.OpenFile(segments[0], os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("r"), int64(at))
	require.NoError(t, err)
	require.NoError(t, f.Close())

	startWorkerIn(t, dir)
	spaceOf(t).Model.Open(gateB)
	require.Contains(t, answeredWell(ctx, t, h, r).Result.Response, "whole")
	told := ""
	for _, b := range fold(events(t, h)).Blocks {
		if b.Subtype == "damaged" {
			told += *b.Message
		}
	}
	require.Contains(t, told, "spool at byte")
	require.Contains(t, told, "the record is damaged")
	require.Contains(t, say(t, h, "RECALL").Result.Response, "clementine")
	require.NoError(t, h.Close(testContext(t)))
}

// TestDamageInTheArchive: a segment of the transcript is missing in the store. When the
// session must be restored, the turn fails and names the segment.
func TestDamageInTheArchive(t *testing.T) {
	skip.InShort(t, "TestDamageIsVisible damages too")
	inOwnNamespace(t)
	startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY kept").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(testContext(t)))
	heardUntil(t, h, 0, first(func(event.EETerminated) bool { return true }))
	var segments []string
	root := filepath.Join(shared.Dir, "devstack", "s3", shared.Env["SOJOURN_BUCKET"], spaceOf(t).Namespace)
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name := d.Name()
		if err == nil && !d.IsDir() && strings.Contains(path, h.ID()+"/transcripts/main/") && name != "head.json" {
			segments = append(segments, path)
		}
		return err
	}))
	require.NotEmpty(t, segments)
	// All of them: a segment that was merged into another may still exist for a moment.
	for _, s := range segments {
		require.NoError(t, os.Remove(s))
	}
	res := say(t, h, "RECALL")
	require.Equal(t, session.Failed, res.Outcome)
	require.Contains(t, res.Error.Message, "archive is corrupt")
	require.True(t, slices.ContainsFunc(segments, func(s string) bool {
		return strings.Contains(res.Error.Message, filepath.Base(s)[:20])
	}), "it names the object: %s", res.Error.Message)
	require.NoError(t, h.Close(testContext(t)))

	to := filepath.Join(t.TempDir(), "session.tar")
	s := program(t, "export", h.ID(), "-o", to)
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, ": damaged in the archive: home/")
	require.FileExists(t, to, "it has all the rest")
}

// stored returns the files in which the store has a session's objects.
func stored(t *testing.T, id, below string) (paths []string) {
	t.Helper()
	root := filepath.Join(shared.Dir, "devstack", "s3", shared.Env["SOJOURN_BUCKET"], spaceOf(t).Namespace)
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "/"+id+"/"+below) {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestDamageOfARecord: the record of one closed session is garbage. It is listed by id
// with its damage, and every other session is listed and shown.
func TestDamageOfARecord(t *testing.T) {
	skip.InShort(t, "TestDamageIsVisible damages too")
	inOwnNamespace(t)
	startWorker(t)
	other, h := open(t, session.Options{}), open(t, session.Options{})
	for _, h := range []*session.Handle{other, h} {
		require.NoError(t, say(t, h, "SAY kept").Err())
		require.NoError(t, h.Close(testContext(t)))
	}
	records := stored(t, h.ID(), "session.json")
	require.Len(t, records, 1)
	require.NoError(t, os.WriteFile(records[0], []byte("garbage"), 0o600))
	for _, id := range []string{other.ID(), h.ID()} {
		_, err := spaceOf(t).Temporal.WorkflowService().DeleteWorkflowExecution(testContext(t), &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: spaceOf(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		})
		require.NoError(t, err)
	}
	list := func() (damage, fine bool) {
		var all []session.Summary
		sojournJSON(t, &all, "ls", "--all", "--limit", "1000", "--json")
		for _, s := range all {
			damage = damage || s.SessionID == h.ID() && strings.Contains(s.Damage, "session.json: archive is corrupt")
			fine = fine || s.SessionID == other.ID() && s.Archived && s.Damage == "" && s.Turns == 1
		}
		return damage, fine
	}
	require.Eventually(t, func() bool {
		damage, fine := list()
		return damage && fine
	}, patience, time.Second, "both are listed from the archive, one with its damage")
	require.Contains(t, sojourn(t, "show", other.ID()), "kept")
	_, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.ErrorContains(t, err, "session.json: archive is corrupt")
}

// TestDamageOfAWorkspace: a pack of a workspace is missing in the store. The next
// sandbox is created all the same; the files of the pack are named, and the rest is
// there.
func TestDamageOfAWorkspace(t *testing.T) {
	skip.InShort(t, "TestDamageIsVisible damages too")
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: echo one > first.txt").Err())
	awaitIdle(t, h)
	packs := stored(t, h.ID(), "workspace/packs/")
	require.NotEmpty(t, packs)
	require.NoError(t, say(t, h, "TOOL bash: echo two > second.txt").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(testContext(t)))
	heardUntil(t, h, 0, first(func(event.EETerminated) bool { return true }))
	for _, pack := range packs {
		require.NoError(t, os.Remove(pack))
	}
	require.NoError(t, say(t, h, "TOOL bash: ls").Err())
	files := shell(t, h, "ls")
	require.Contains(t, files, "second.txt")
	require.NotContains(t, files, "first.txt")
	i, err := h.Inspect(testContext(t))
	require.NoError(t, err)
	require.Contains(t, i.ArchiveBehind, "first.txt")
	require.Contains(t, i.ArchiveBehind, "is missing")
	require.NoError(t, h.Close(testContext(t)))
}
