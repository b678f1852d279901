package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/overview"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// reasons returns why the sandboxes of a session ended, in order.
func reasons(t *testing.T, h *session.Handle) []string {
	t.Helper()
	var out []string
	for _, p := range payloads[event.EETerminated](events(t, h)) {
		out = append(out, p.Reason)
	}
	return out
}

// saved returns the archived content of a transcript, "" if there is none.
func saved(ctx context.Context, t *testing.T, id, transcript string) string {
	t.Helper()
	for f, err := range spaceOf(t).Archive.RestoreFiles(ctx, id, lastEpoch(ctx, t, id)) {
		require.NoError(t, err)
		if f.ID != transcript {
			continue
		}
		body, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		return string(data)
	}
	return ""
}

func lastEpoch(ctx context.Context, t *testing.T, id string) uint64 {
	t.Helper()
	epoch, err := spaceOf(t).Archive.Epoch(ctx, id)
	require.NoError(t, err)
	return epoch
}

// TestR104UnhealthyRestartReady: a sandbox whose agent died is unhealthy, gets a new
// agent, and is ready again, with the restart counted. It is the same sandbox.
func TestR104UnhealthyRestartReady(t *testing.T) {
	inOwnNamespace(t)
	s := stage(t, startKillable(t).dir, "claude")
	s.atGate(0)
	s.endRunner()
	s.goOn()
	res, err := s.h.Wait(testContext(t), s.r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.NoError(t, s.h.Close(testContext(t)))

	var states []string
	restarts := map[string]int{}
	var now overview.Builder
	for _, ev := range s.l.closed(t) {
		now.Add(ev)
		if p, ok := ev.Payload.(event.Status); ok && p.State != "" {
			states = append(states, p.State)
			env := now.Session().Environment
			require.Equal(t, p.State, env.Status)
			restarts[p.State] = env.RestartCount
			require.Equal(t, p.State == "unhealthy", env.Message != "", "%s: %q", p.State, env.Message)
		}
	}
	require.Equal(t, []string{"starting", "ready", "unhealthy", "ready", "terminated"}, states)
	require.Equal(t, 1, restarts["ready"])
	require.Len(t, payloads[event.EECreating](s.l.all()), 1)
}

// TestR105IdleTimeoutEndsTheSandbox: a sandbox that is idle for the timeout is
// terminated, with that reason. The session remains and creates another one for the
// next message.
func TestR105IdleTimeoutEndsTheSandbox(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	h := open(t, session.Options{IdleTimeoutMS: 300})
	require.NoError(t, say(t, h, "SAY remember the word bilberry").Err())
	heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.Equal(t, []string{"idle"}, reasons(t, h))
	require.Eventually(t, func() bool { return len(sandboxes(t, w)) == 0 }, patience, tick)
	snap, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	require.Equal(t, session.StatusIdle, snap.Status)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "bilberry")
	require.NoError(t, h.Close(testContext(t)))
}

// TestR106DeactivateSandbox: evicting terminates the sandbox and leaves the session
// loaded; the next message starts a new one.
func TestR106DeactivateSandbox(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY one").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(ctx))
	heard := heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.Equal(t, "manual", last(payloads[event.EETerminated](heard)).Reason)
	runtime := last(payloads[event.Status](events(t, h))).Runtime
	require.True(t, runtime.IsLoaded)
	require.Nil(t, runtime.Sandbox)
	require.NoError(t, say(t, h, "SAY two").Err())
	ready := payloads[event.EEReady](events(t, h))
	require.Len(t, ready, 2)
	require.NotEqual(t, ready[0].SandboxID, ready[1].SandboxID)
	require.NoError(t, h.Close(ctx))
}

// TestR107UnloadSession: closing archives transcript and files, terminates the sandbox,
// and the status is not loaded, without a sandbox.
func TestR107UnloadSession(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL write: kept.txt :: the file THEN SAY the last word").Err())
	require.NoError(t, h.Close(ctx))
	require.Empty(t, sandboxes(t, w))
	all := events(t, h)
	runtime := last(payloads[event.Status](all)).Runtime
	require.False(t, runtime.IsLoaded)
	require.Nil(t, runtime.Sandbox)
	require.Contains(t, saved(ctx, t, h.ID(), "main"), "the last word")

	h, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "TOOL bash: cat kept.txt").Err())
	require.True(t, toldByATool(events(t, h), "the file"), "the workspace is kept")
	require.NoError(t, h.Close(ctx))
}

func toldByATool(events []event.Event, text string) bool {
	for _, p := range payloads[event.BlockUpsert](events) {
		if p.Block.Type == event.BlockToolResult && strings.Contains(string(p.Block.Output), text) {
			return true
		}
	}
	return false
}

// TestR108LongWorkIsNotCut: idle means without activity, not without messages: a turn
// may work, silently, for many times the idle timeout.
func TestR108LongWorkIsNotCut(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{IdleTimeoutMS: 200})
	require.NoError(t, say(t, h, "TOOL bash: sleep 3; echo done late THEN SAY after it").Err())
	for _, ev := range events(t, h) {
		if ev.Type() == "query:completed" {
			break
		}
		require.IsNotType(t, event.EETerminated{}, ev.Payload)
	}
	heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.Equal(t, []string{"idle"}, reasons(t, h))
	require.NoError(t, h.Close(testContext(t)))
}

// TestR108BackgroundWorkIsNotCut: a background command that a turn left keeps the
// sandbox while it works, for many times the idle timeout. The command has a process
// session of its own, since Codex ends what its shell leaves in the shell's process
// group.
func TestR108BackgroundWorkIsNotCut(t *testing.T) {
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		dir := t.TempDir()
		h := open(t, session.Options{Agent: a.Info().Name, IdleTimeoutMS: 200, Workspace: dir})
		job := "touch begun; until [ -e go ]; do sleep 0.1; done; touch made"
		leave := "setsid sh -c '" + job + "' >/dev/null 2>&1 & until [ -e begun ]; do sleep 0.1; done; echo left"
		require.NoError(t, say(t, h, "TOOL bash: "+leave+" THEN SAY left").Err())
		eventually(t, func(c *assert.CollectT) bool {
			now, err := h.Inspect(testContext(t))
			require.NoError(c, err)
			return slices.Contains(now.Background, "sh") || now.Sandbox == nil
		}, patience, tick, "the idle timeout passes, and finds the command at work")
		require.Empty(t, reasons(t, h))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		heardUntil(t, h, 0, nth[event.EETerminated](1))
		require.Equal(t, []string{"idle"}, reasons(t, h))
		require.FileExists(t, filepath.Join(dir, "made"))
		require.NoError(t, h.Close(testContext(t)))
	})
}

// TestR108NoAnswerIsNotIdle: while a sandbox's runner does not answer, commands may be at
// work; the sandbox stays, and ends with the idle timeout once the runner says that none is.
func TestR108NoAnswerIsNotIdle(t *testing.T) {
	skip.InShort(t, "TestR108BackgroundWorkIsNotCut has a runner that answers; this one waits for the end of patience")
	inOwnNamespace(t)
	w, dir := startWorker(t), t.TempDir()
	h := open(t, session.Options{IdleTimeoutMS: 200, Workspace: dir})
	require.NoError(t, say(t, h, "TOOL bash: setsid sh -c 'touch begun; until [ -e go ]; do sleep 0.1; done; touch made' >/dev/null 2>&1 & until [ -e begun ]; do sleep 0.1; done").Err())
	awaitBackground := func(what string) {
		eventually(t, func(c *assert.CollectT) bool {
			now, err := h.Inspect(testContext(t))
			require.NoError(c, err)
			return slices.Contains(now.Background, what) || now.Sandbox == nil
		}, patience, tick, what)
		require.Empty(t, reasons(t, h))
	}
	awaitBackground("sh")
	runners, err := harness.Family(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-"), 0)
	require.NoError(t, err)
	runners = slices.DeleteFunc(runners, func(p harness.Seen) bool { return !strings.Contains(p.Cmdline, " supervise") })
	require.NotEmpty(t, runners)
	require.NoError(t, harness.SignalSeen(syscall.SIGSTOP, runners...))
	t.Cleanup(func() { require.NoError(t, harness.SignalSeen(syscall.SIGCONT, runners...)) })
	awaitBackground("a runner that does not answer")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "made")); return err == nil }, patience, tick)
	require.NoError(t, harness.SignalSeen(syscall.SIGCONT, runners...))
	heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.Equal(t, []string{"idle"}, reasons(t, h))
	require.NoError(t, h.Close(testContext(t)))
}

// TestR110TranscriptWatching: subscribers receive events about the transcript's growth
// during the turn, and the announced bytes can be read.
func TestR110TranscriptWatching(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	r, gate := sendToGate(ctx, t, h, "TOOL bash: echo one THEN ")
	heard := heardUntil(t, h, 0, nth[event.TranscriptChanged](1))
	require.Empty(t, payloads[event.QueryCompleted](heard))
	changed := payloads[event.TranscriptChanged](heard)[0]
	require.GreaterOrEqual(t, int64(len(saved(ctx, t, h.ID(), changed.ID))), changed.Offset)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
	size := int64(0)
	for _, c := range payloads[event.TranscriptChanged](events(t, h)) {
		require.GreaterOrEqual(t, c.Offset, size, "it never shrinks")
		size = c.Offset
	}
	require.Len(t, saved(ctx, t, h.ID(), "main"), int(size), "the last announcement is the whole")
}

// TestR113PeriodicSync: during a turn its transcript is archived, with all blocks so
// far.
func TestR113PeriodicSync(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	r, gate := sendToGate(ctx, t, h, "TOOL bash: echo sampled THEN ")
	require.Eventually(t, func() bool {
		return strings.Contains(saved(ctx, t, h.ID(), "main"), "sampled")
	}, patience, tick, "saved while the model waits at the gate")
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
}

// TestR115AutoRestore: reopening loads the record, calls onBeforeRestore, which may
// cancel or migrate, creates the session, and calls onAfterRestore.
func TestR115AutoRestore(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Title: "old"})
	require.NoError(t, say(t, h, "SAY remember the word cloudberry").Err())
	require.NoError(t, h.Close(ctx))

	var order []string
	migrate := true
	c, err := session.NewClient(session.ClientOptions{
		Temporal: spaceOf(t).Temporal, Stream: spaceOf(t).Log, Archive: spaceOf(t).Archive, Agents: builtin.Registry(),
		OnBeforeRestore: func(_ context.Context, id string, rec *session.Record) (bool, error) {
			order = append(order, "before "+id)
			require.Equal(t, 1, rec.Turns)
			rec.Options.Title = "migrated"
			return migrate, nil
		},
		OnAfterRestore: func(_ context.Context, h *session.Handle) { order = append(order, "after "+h.ID()) },
	})
	require.NoError(t, err)
	migrate = false
	_, err = c.Open(ctx, h.ID(), session.Options{})
	require.ErrorIs(t, err, session.ErrRestoreCanceled)
	require.Equal(t, []string{"before " + h.ID()}, order)
	_, err = spaceOf(t).Archive.Session(ctx, h.ID())
	require.NoError(t, err, "nothing is lost")

	migrate, order = true, nil
	h, err = c.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"before " + h.ID(), "after " + h.ID()}, order)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "cloudberry")
	snap, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, "migrated", snap.Title)
	require.NoError(t, h.Close(ctx))

	order = nil
	_, err = c.Open(ctx, "", session.Options{Agent: "claude"})
	require.NoError(t, err)
	require.Empty(t, order, "a new session is no restore")
}

// TestR116RestoreLayers: a session that is reopened has its timeline, its agent's own state and
// its options. A caller that resolves some of these itself reads the closed session whole, before
// anything of it is applied, and what it leaves in the record is what the session has.
func TestR116RestoreLayers(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	kept, ours := json.RawMessage(`"core"`), json.RawMessage(`"cloudberry"`)
	h := open(t, session.Options{Title: "layers", Metadata: map[string]json.RawMessage{"team": kept, "stale": kept}})
	require.NoError(t, say(t, h, "TOOL bash: echo kept > kept.txt THEN SAY remember the word cloudberry").Err())
	require.NoError(t, h.Close(ctx))
	before, err := spaceOf(t).Client.Runtime(ctx, h.ID(), session.Timeline{})
	require.NoError(t, err)

	h, err = spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return inspection(t, h).Phase == "idle" }, patience, tick)
	now, err := spaceOf(t).Client.Runtime(ctx, h.ID(), session.Timeline{})
	require.NoError(t, err)
	require.Equal(t, idsOf(before.Blocks), idsOf(now.Blocks), "its timeline")
	require.Equal(t, before.Inspection.Usage, now.Inspection.Usage)
	require.Equal(t, before.Inspection.Options.Metadata, now.Inspection.Options.Metadata)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "cloudberry", "its agent's own state")
	require.NoError(t, say(t, h, "TOOL bash: test -e kept.txt").Err())
	require.NoError(t, h.Close(ctx))

	var c *session.Client
	c, err = session.NewClient(session.ClientOptions{
		Temporal: spaceOf(t).Temporal, Stream: spaceOf(t).Log, Archive: spaceOf(t).Archive, Agents: builtin.Registry(),
		OnBeforeRestore: func(ctx context.Context, id string, rec *session.Record) (bool, error) {
			whole, err := c.Runtime(ctx, id, session.Timeline{})
			require.NoError(t, err)
			require.Equal(t, session.StatusClosed, whole.Inspection.Status)
			require.Equal(t, rec.Turns, whole.Inspection.Turns)
			require.Subset(t, idsOf(whole.Blocks), idsOf(before.Blocks))
			delete(rec.Options.Metadata, "stale")
			rec.Options.Metadata["resolved"] = ours
			return true, nil
		},
	})
	require.NoError(t, err)
	h, err = c.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"team": kept, "resolved": ours}, inspection(t, h).Options.Metadata)
	require.NoError(t, h.Close(ctx))
}
