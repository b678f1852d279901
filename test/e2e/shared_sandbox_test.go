package e2e

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// inParents is a spawn into the parent's sandbox.
func inParents(text string) session.SpawnRequest {
	return session.SpawnRequest{Options: session.Options{Sandbox: session.SandboxParent}, Message: session.Message{Text: text}}
}

// shown runs a child to its end and returns what its last tool printed.
func shown(t *testing.T, parent *session.Handle, req session.SpawnRequest) string {
	t.Helper()
	ctx := testContext(t)
	x, err := parent.SpawnExecution(ctx, req)
	require.NoError(t, err)
	res, err := x.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, res.Raw.Err())
	var output string
	for _, b := range res.Outputs {
		if b.Type == event.BlockToolResult {
			output = string(b.Output)
		}
	}
	return output
}

// TestR40RunnerInheritance: a child in its parent's sandbox, its own children after it, and
// one of another agent work in the parent's files, each in a home of its own; a child that
// asks for its own sandbox does not. The parent keeps what they wrote.
func TestR40RunnerInheritance(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{Model: "claude-opus-4-5", MaxTicks: 7, Title: "the parent", Tags: []string{"parents"}})
	require.NoError(t, say(t, parent, "TOOL bash: echo of the parent > parents.txt THEN SAY written").Err())

	require.Contains(t, shown(t, parent, inParents("TOOL bash: cat parents.txt; echo of the child > childs.txt; touch ~/mine THEN SAY done")), "of the parent")
	other := inParents("TOOL bash: cat childs.txt; ls ~ THEN SAY done")
	other.Options.Agent = "codex"
	if anyAgent(t) == other.Options.Agent {
		other.Options.Agent = "claude"
	}
	seen := shown(t, parent, other)
	require.Contains(t, seen, "of the child")
	require.NotContains(t, seen, "mine", "a home of its own")

	child, gate := spawnGatedWith(t, parent, session.Options{Sandbox: session.SandboxParent})
	require.Contains(t, shown(t, child, session.SpawnRequest{Message: session.Message{Text: "TOOL bash: cat parents.txt childs.txt THEN SAY done"}}), "of the parent")
	own := session.SpawnRequest{Options: session.Options{Sandbox: session.SandboxOwn}, Message: session.Message{Text: "TOOL bash: ls; echo nothing else THEN SAY done"}}
	require.NotContains(t, shown(t, child, own), "parents.txt")

	at, err := parent.Inspect(ctx)
	require.NoError(t, err)
	childs, err := child.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, at.Sandbox.Host, childs.Sandbox.Host)
	require.NotEqual(t, at.Sandbox.ID, childs.Sandbox.ID)
	require.Equal(t, at.Options.Agent, childs.Options.Agent)
	require.Equal(t, "claude-opus-4-5", childs.Options.Model)
	require.Equal(t, 7, childs.Options.MaxTicks)
	require.NotEqual(t, at.Options.Title, childs.Options.Title, "what is the parent's own is not inherited")
	require.Empty(t, childs.Options.Tags)
	require.ErrorIs(t, parent.Evict(ctx), session.ErrBusy, "the child works in it")
	spaceOf(t).Model.Open(gate)
	eventually(t, func(c *assert.CollectT) bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)

	require.NoError(t, say(t, parent, "TOOL bash: cat childs.txt THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "of the child")
	require.NoError(t, parent.Evict(ctx))
	require.NoError(t, say(t, parent, "TOOL bash: cat childs.txt THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "of the child", "restored in another sandbox")
	require.NoError(t, parent.Close(ctx))
}

// TestSharedSandboxIsMade: a parent that has no sandbox gets one when a child is to work in
// it, and its agent works there too.
func TestSharedSandboxIsMade(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	x, err := parent.SpawnExecution(ctx, inParents("TOOL bash: echo of the child > childs.txt THEN SAY written"))
	require.NoError(t, err)
	res, err := x.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "written", res.Response)
	require.NoError(t, say(t, parent, "TOOL bash: cat childs.txt THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "of the child")
	require.NoError(t, parent.Close(ctx))
}

// TestSharedSandboxIsNotIdle: the idle timeout of a parent does not end the sandbox in which
// its child works; it does when the child has ended.
func TestSharedSandboxIsNotIdle(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{IdleTimeoutMS: (2 * time.Second).Milliseconds()})
	require.NoError(t, say(t, parent, "SAY ready").Err())
	_, gate := spawnGatedWith(t, parent, session.Options{Sandbox: session.SandboxParent})
	eventually(t, func(c *assert.CollectT) bool {
		i, err := parent.Inspect(ctx)
		require.NoError(c, err)
		require.NotNil(c, i.Sandbox)
		return len(i.Background) == 1 && strings.HasPrefix(i.Background[0], "session ")
	}, patience, tick)
	spaceOf(t).Model.Open(gate)
	eventually(t, func(c *assert.CollectT) bool {
		s, err := parent.Snapshot(ctx)
		require.NoError(c, err)
		return s.Sandbox == nil
	}, patience, tick)
	require.NoError(t, parent.Close(ctx))
}

// TestAnAgentSharesItsSandbox: an agent lets one that it spawns work in its own folder, in the
// middle of its turn.
func TestAnAgentSharesItsSandbox(t *testing.T) {
	onSharedHost(t)
	name := anyAgent(t)
	parent := open(t, session.Options{Agent: name, Spawn: true})
	require.NoError(t, say(t, parent, "TOOL bash: echo of the parent > parents.txt THEN SAY written").Err())
	spawned := oneAgent(t, useTool(t, parent, name, agenttools.SpawnAgent,
		agenttools.Spawn{Prompt: "TOOL bash: cp parents.txt copied.txt ANDTHEN SAY copied", Sandbox: session.SandboxParent}))
	require.Equal(t, agenttools.Answered, spawned.Status, spawned.Answer)
	require.NoError(t, say(t, parent, "TOOL bash: cat copied.txt THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "of the parent")
	require.NoError(t, parent.Close(testContext(t)))
}

// TestSharedSandboxIsRefused: without a parent, or with a folder, there is no sandbox to work
// in.
func TestSharedSandboxIsRefused(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	_, err := spaceOf(t).Client.Create(ctx, "", session.Options{Agent: anyAgent(t), Sandbox: session.SandboxParent})
	require.ErrorContains(t, err, `sandbox: is "parent", and the session has no parent; want "own"`)
	parent := open(t, session.Options{})
	_, err = parent.Spawn(ctx, session.SpawnRequest{Options: session.Options{Sandbox: "theirs"}, Message: session.Message{Text: "SAY no"}})
	require.ErrorContains(t, err, `sandbox: is "theirs"; want "own", or "parent" for a child session`)
	_, err = parent.Spawn(ctx, session.SpawnRequest{Options: session.Options{Sandbox: session.SandboxParent, Workspace: "/srv"}, Message: session.Message{Text: "SAY no"}})
	require.ErrorContains(t, err, "workspace: is /srv")
	require.NoError(t, parent.Close(ctx))
}

// TestKillHostOfASharedSandbox: a parent's turn and that of the child in its sandbox are lost
// with their host. Both continue in the parent's next sandbox.
func TestKillHostOfASharedSandbox(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	withClaude(t)
	inOwnNamespace(t)
	ctx := testContext(t)
	k := startKillable(t)
	parent := open(t, session.Options{})
	gate := "parent-" + uuid.NewString()
	asked, err := parent.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	child, childs := spawnGatedWith(t, parent, session.Options{Sandbox: session.SandboxParent})
	before, err := parent.Inspect(ctx)
	require.NoError(t, err)
	followed := follow(t, child)
	k.lose()
	k.start()
	spaceOf(t).Model.Open(gate)
	spaceOf(t).Model.Open(childs)
	res, err := parent.Wait(ctx, asked)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	var in string
	for _, ev := range followed.closed(t) {
		switch p := ev.Payload.(type) {
		case event.EEReady:
			in = p.Host
		case event.QueryFailed:
			t.Fatal(p.Error)
		}
	}
	require.NotEmpty(t, in)
	require.NotEqual(t, before.Sandbox.Host, in)
	requireSame(t, child.ID())
	require.NoError(t, parent.Close(ctx))
	requireSame(t, parent.ID())
}

// TestKillHostOfATree: the host of a parent and of its child, each in a sandbox of its own, is
// lost in both their turns. Both continue elsewhere, and the parent has its child's end.
func TestKillHostOfATree(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	inOwnNamespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	k := startKillable(t)
	parent := open(t, session.Options{})
	asked, gate := sendToGate(ctx, t, parent, "")
	child, childs := spawnGatedWith(t, parent, session.Options{Agent: "codex"})
	lost := hostOf(t, parent)
	require.Equal(t, lost, hostOf(t, child))
	k.lose()
	k.start()
	spaceOf(t).Model.Open(gate)
	spaceOf(t).Model.Open(childs)
	res, err := parent.Wait(ctx, asked)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	for ev, err := range parent.Events(ctx, 0, session.Follow) {
		require.NoError(t, err)
		if end, ended := ev.Payload.(event.SubagentCompleted); ended && end.ChildSessionID == child.ID() {
			require.Equal(t, event.SubagentCompletedOK, end.Status)
			break
		}
	}
	require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	require.NotEqual(t, lost, hostOf(t, parent))
	require.NoError(t, parent.Close(ctx))
	requireSame(t, child.ID())
	requireSame(t, parent.ID())
}

// TestDrainOfASharedSandbox: a drained host waits until the child in a parent's sandbox has
// done its work; then the parent continues on another host, with what the child wrote.
func TestDrainOfASharedSandbox(t *testing.T) {
	skip.InShort(t, "with two hosts")
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	require.NoError(t, say(t, parent, "SAY ready").Err())
	child, gate := spawnGatedWith(t, parent, session.Options{Sandbox: session.SandboxParent})
	queued, err := child.Send(ctx, session.Message{Text: "TOOL bash: echo of the child > childs.txt THEN SAY done"})
	require.NoError(t, err)
	host := hostOf(t, parent)
	startWorker(t)
	drained := make(chan said, 1)
	go func() { drained <- program(t, "drain", host) }()
	eventually(t, func(*assert.CollectT) bool {
		return regexp.MustCompile(host + ` has 1 sandbox.* being drained`).MatchString(program(t, "doctor").out)
	}, patience, tick)
	require.Equal(t, host, hostOf(t, parent))
	spaceOf(t).Model.Open(gate)
	require.Equal(t, "done", answeredWell(ctx, t, child, queued).Result.Response)
	end := <-drained
	require.Zero(t, end.code, end.err)
	require.Equal(t, []string{"drain"}, reasons(t, parent))
	require.Equal(t, []string{"manual"}, reasons(t, child), "it has closed")
	require.NoError(t, say(t, parent, "TOOL bash: cat childs.txt THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "of the child")
	require.NotEqual(t, host, hostOf(t, parent))
	require.NoError(t, parent.Close(ctx))
}
