package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// spawnGated starts a child whose turn waits at a gate, and returns when it is there.
func spawnGated(t *testing.T, parent *session.Handle) (child *session.Handle, gate string) {
	t.Helper()
	return spawnGatedWith(t, parent, session.Options{})
}

func spawnGatedWith(t *testing.T, parent *session.Handle, o session.Options) (child *session.Handle, gate string) {
	t.Helper()
	ctx := testContext(t)
	gate = "child-" + uuid.NewString()
	reply, err := parent.Spawn(ctx, session.SpawnRequest{Options: o, Message: session.Message{Text: "GATE " + gate}})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	child, err = spaceOf(t).Client.Get(ctx, reply.ChildID)
	require.NoError(t, err)
	return child, gate
}

func childrenOf(t *testing.T, h *session.Handle) []string {
	t.Helper()
	s, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	var ids []string
	for _, c := range s.Children {
		ids = append(ids, c.SessionID)
	}
	return ids
}

// ended waits for the end of an execution without a receipt.
func ended(t *testing.T, h *session.Handle) event.Query {
	t.Helper()
	for ev, err := range h.Events(testContext(t), 0, session.Follow) {
		require.NoError(t, err)
		switch p := ev.Payload.(type) {
		case event.QueryCompleted:
			return p.Query
		case event.QueryFailed:
			return p.Query
		case event.QueryInterrupted:
			return p.Query
		}
	}
	t.Fatal("the session closed without an end of its execution")
	return event.Query{}
}

func TestR41AbortPropagation(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	gate := "parent-" + uuid.NewString()
	r, err := parent.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	child, _ := spawnGated(t, parent)
	grandchild, _ := spawnGated(t, child)

	_, err = parent.Interrupt(ctx, session.InterruptRequest{Reason: "stop it all"})
	require.NoError(t, err)
	res, err := parent.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	for name, h := range map[string]*session.Handle{"child": child, "grandchild": grandchild} {
		q := ended(t, h)
		require.Equal(t, "Parent interrupted", q.Reason, name)
	}
	require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	require.NoError(t, parent.Close(ctx))
	requireParity(t, parent.ID())
}

// TestInterruptMessageOfAnIdleParentRuns: the message of an interrupt that stops the
// children of an idle session runs next, as for one that stops a turn.
func TestInterruptMessageOfAnIdleParentRuns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	child, _ := spawnGated(t, parent)
	var reply session.InterruptReply
	sojournJSON(t, &reply, "interrupt", parent.ID(), "--message", "SAY instead of the child")
	require.True(t, reply.Running, "the child's turn ran")
	res, err := parent.Wait(ctx, *reply.Receipt)
	require.NoError(t, err)
	require.Equal(t, "instead of the child", res.Result.Response)
	require.Equal(t, "Parent interrupted", ended(t, child).Reason)
	require.NoError(t, parent.Close(ctx))
	requireParity(t, parent.ID())
}

func TestR42ClosePropagation(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	child, _ := spawnGated(t, parent)
	grandchild, _ := spawnGated(t, child)
	require.NoError(t, parent.Close(ctx))
	for _, h := range []*session.Handle{child, grandchild} {
		_, err := h.Send(ctx, session.Message{Text: "SAY no"})
		require.ErrorIs(t, err, session.ErrClosed)
		got := events(t, h)
		require.IsType(t, event.SessionClosed{}, got[len(got)-1].Payload)
	}
	// All children are closed before the parent is.
	last := events(t, parent)
	var order []event.Type
	for _, ev := range last {
		if ev.Type() == "subagent:completed" || ev.Type() == "session:closed" {
			order = append(order, ev.Type())
		}
	}
	require.Equal(t, []event.Type{"subagent:completed", "session:closed"}, order)
	require.Empty(t, sandboxes(t, w))
}

// TestParentsByHand: two sessions whose starts name each other as the parent, which no spawn
// does, are two sessions; one that names itself is refused.
func TestParentsByHand(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	a, b := uuid.NewString(), uuid.NewString()
	start := func(id, parent string) client.WorkflowRun {
		run, err := spaceOf(t).Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: session.TaskQueue}, session.WorkflowType, session.Input{
			SessionID: id, Version: session.StateVersion, Options: session.Options{Agent: anyAgent(t)}, CreatedAt: time.Now(),
			Parent: &session.Parent{SessionID: parent, Root: parent, Depth: 1, ToolUseID: "t"},
			First:  &session.Message{ID: "m1", Text: "SAY hello"},
		})
		require.NoError(t, err)
		return run
	}
	for id, parent := range map[string]string{a: b, b: a} {
		require.NoError(t, start(id, parent).Get(ctx, nil), "a child ends by itself")
	}
	for _, id := range []string{a, b} {
		conv, err := spaceOf(t).Client.ShowTree(ctx, id, session.FromArchive)
		require.NoError(t, err)
		require.Empty(t, conv.Faults)
		require.Equal(t, "hello", *conv.State.Blocks[len(conv.State.Blocks)-1].Content)
	}
	var app *temporal.ApplicationError
	require.ErrorAs(t, start(uuid.NewString(), "x y").Get(ctx, nil), &app)
	require.Equal(t, session.TypeInvalid, app.Type())
	itself := uuid.NewString()
	require.ErrorContains(t, start(itself, itself).Get(ctx, nil), "parent.sessionId")
}

// tenLevels spawns as deep as a session may, each level at work.
func tenLevels(ctx context.Context, t *testing.T) (levels []*session.Handle) {
	t.Helper()
	levels = []*session.Handle{open(t, session.Options{Agent: "codex"})} // its program starts the fastest
	for depth := 1; depth <= session.MaxDepth; depth++ {
		child, _ := spawnGated(t, levels[depth-1])
		s, err := child.Snapshot(ctx)
		require.NoError(t, err)
		require.Equal(t, depth, s.Parent.Depth)
		require.Equal(t, levels[0].ID(), s.Parent.Root)
		levels = append(levels, child)
	}
	return levels
}

// TestR43DepthLimit spawns ten real levels; the eleventh is refused. An interrupt at
// the top reaches the bottom.
func TestR43DepthLimit(t *testing.T) {
	onSharedHost(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // eleven agents
	defer cancel()
	levels := tenLevels(ctx, t)
	top := levels[0]
	_, err := levels[10].Spawn(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY too deep"}})
	require.ErrorIs(t, err, session.ErrDepthLimit)
	require.ErrorContains(t, err, "Maximum spawn depth (10) exceeded")

	_, err = top.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	for i, h := range levels[1:] {
		require.Equal(t, "Parent interrupted", ended(t, h).Reason, fmt.Sprintf("level %d", i+1))
	}
	require.Eventually(t, func() bool { return len(childrenOf(t, top)) == 0 }, patience, tick)
	require.NoError(t, top.Close(ctx))
}

// TestTenLevelsEndWithTheTop: a session that is closed or terminated ends what is at work below
// it, down to the tenth level, and leaves no sandbox.
func TestTenLevelsEndWithTheTop(t *testing.T) {
	skip.InShort(t, "TestR43DepthLimit interrupts ten levels")
	inOwnNamespace(t)
	w := startWorker(t)
	for reason, end := range map[string]func(context.Context, *session.Handle) error{
		"closed":     func(ctx context.Context, h *session.Handle) error { return h.Close(ctx) },
		"terminated": terminateAndReconcile(t),
	} {
		t.Run(reason, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			levels := tenLevels(ctx, t)
			require.NoError(t, end(ctx, levels[0]))
			awaitClosed(t, levels[0], reason)
			for _, h := range levels[1:] {
				awaitClosed(t, h, "cancelled")
			}
			require.Eventually(t, func() bool { return len(sandboxes(t, w)) == 0 }, patience, tick)
		})
	}
}

func TestR44ChildrenAreGoneOnAnyEnd(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	gate := func() string { return "GATE gone-" + uuid.NewString() }
	workflows := spaceOf(t).Temporal
	for _, c := range []struct {
		name, text string
		want       event.SubagentResult
		output     string
		end        func(*session.Handle) error
	}{
		{"success", "SAY well done", event.SubagentCompletedOK, "well done", nil},
		{"error", "ERR400", event.SubagentFailed, "400", nil},
		{"timed out", gate(), event.SubagentFailed, "the agent said nothing for 2s", nil},
		{"closed", gate(), event.SubagentFailed, "ended without an answer", func(h *session.Handle) error { return h.Close(ctx) }},
		{"cancelled", gate(), event.SubagentFailed, "ended without an answer", func(h *session.Handle) error { return workflows.CancelWorkflow(ctx, h.ID(), "") }},
		{"terminated", gate(), event.SubagentFailed, "the session was terminated", func(h *session.Handle) error { return workflows.TerminateWorkflow(ctx, h.ID(), "", "an operator") }},
	} {
		req := session.SpawnRequest{Message: session.Message{Text: c.text}}
		if c.name == "timed out" {
			req.Options.NoProgressMS = 2000
		}
		reply, err := parent.Spawn(ctx, req)
		require.NoError(t, err, c.name)
		if c.end != nil {
			require.Contains(t, childrenOf(t, parent), reply.ChildID)
			child, err := spaceOf(t).Client.Get(ctx, reply.ChildID)
			require.NoError(t, err)
			require.NoError(t, c.end(child))
		}
		require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick, c.name)
		var got *event.SubagentCompleted
		require.Eventually(t, func() bool {
			for _, ev := range events(t, parent) {
				if p, ok := ev.Payload.(event.SubagentCompleted); ok && p.ChildSessionID == reply.ChildID {
					got = &p
				}
			}
			return got != nil
		}, patience, tick, c.name)
		require.Equal(t, c.want, got.Status, c.name)
		require.Contains(t, *got.Output, c.output, c.name)
	}
	require.NoError(t, parent.Close(ctx))
	requireParity(t, parent.ID())
}

func TestR45ChildrenAreNotListed(t *testing.T) {
	onSharedHost(t)
	parent := open(t, session.Options{})
	child, gate := spawnGated(t, parent)
	require.Eventually(t, func() bool {
		ids := listed(t, session.ListOptions{Children: true})
		return contains(ids, child.ID()) && contains(ids, parent.ID())
	}, patience, tick, "asked for, a child is in the list")
	ids := listed(t, session.ListOptions{})
	require.Contains(t, ids, parent.ID())
	require.NotContains(t, ids, child.ID())
	spaceOf(t).Model.Open(gate)
	require.NoError(t, parent.Close(testContext(t)))
	require.NotContains(t, listed(t, session.ListOptions{}), child.ID())
}

func contains(ids []string, id string) bool {
	for _, have := range ids {
		if have == id {
			return true
		}
	}
	return false
}

// TestSpawnEventsEncloseTheChild: in the parent's stream spawned is before the child's
// first event and completed after its last.
func TestSpawnEventsEncloseTheChild(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	gate := "enclose-" + uuid.NewString()
	r, err := parent.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	reply, err := parent.Spawn(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY from within"}, Description: "a look inside"})
	require.NoError(t, err)
	child, err := spaceOf(t).Client.Get(ctx, reply.ChildID)
	require.NoError(t, err)
	require.NoError(t, child.Close(ctx))
	spaceOf(t).Model.Open(gate)
	_, err = parent.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, parent.Close(ctx))

	inner := events(t, child)
	var spawned, completed event.Event
	for _, ev := range events(t, parent) {
		switch p := ev.Payload.(type) {
		case event.SubagentSpawned:
			require.Equal(t, reply.ChildID, p.ChildSessionID)
			spawned = ev
		case event.SubagentCompleted:
			completed = ev
		}
	}
	require.False(t, spawned.Context.Timestamp.After(inner[0].Context.Timestamp))
	require.False(t, completed.Context.Timestamp.Before(inner[len(inner)-1].Context.Timestamp))
	requireParity(t, parent.ID())
}

// TestR35ParallelSpawns: children that are spawned at the same time run in parallel,
// and the outcome of one doesn't affect the others.
func TestR35ParallelSpawns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	gates := []string{"r35-" + uuid.NewString(), "r35-" + uuid.NewString(), "r35-" + uuid.NewString()}
	children := make([]string, len(gates))
	var g errgroup.Group
	for i, gate := range gates {
		g.Go(func() error {
			reply, err := parent.Spawn(ctx, session.SpawnRequest{Message: session.Message{Text: fmt.Sprintf("GATE %s THEN SAY answer %d", gate, i)}})
			children[i] = reply.ChildID
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, gate := range gates {
		require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate), "all run at the same time")
	}
	require.ElementsMatch(t, children, childrenOf(t, parent))

	stopped, err := spaceOf(t).Client.Get(ctx, children[0])
	require.NoError(t, err)
	require.NoError(t, stopped.Close(ctx))
	spaceOf(t).Model.Open(gates[2])
	heardUntil(t, parent, 0, nth[event.SubagentCompleted](2))
	require.Equal(t, []string{children[1]}, childrenOf(t, parent), "the others continue")
	spaceOf(t).Model.Open(gates[1])
	heard := heardUntil(t, parent, 0, nth[event.SubagentCompleted](3))
	ends := map[string]event.SubagentCompleted{}
	for _, p := range payloads[event.SubagentCompleted](heard) {
		ends[p.ChildSessionID] = p
	}
	require.Equal(t, event.SubagentFailed, ends[children[0]].Status)
	for _, i := range []int{1, 2} {
		require.Equal(t, event.SubagentCompletedOK, ends[children[i]].Status)
		require.Contains(t, *ends[children[i]].Output, fmt.Sprint("answer ", i))
	}
	require.NoError(t, parent.Close(ctx))
	requireParity(t, parent.ID())
}

// TestR38StateIsolation: a child starts with none of its parent's conversation, files
// or labels, and leaves nothing in it.
func TestR38StateIsolation(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{Agent: anyAgent(t),
		Title: "the parent's", Tags: []string{"parents"}, Metadata: map[string]json.RawMessage{"secret": json.RawMessage(`"parents"`)},
	})
	require.NoError(t, say(t, parent, "TOOL write: parents.txt :: the parent's words THEN SAY remember the word tamarind").Err())
	require.NoError(t, parent.Queue(ctx, session.Message{ID: "held", Text: "SAY held back"}))
	before, err := parent.Inspect(ctx)
	require.NoError(t, err)

	gate := "r38-" + uuid.NewString()
	reply, err := parent.Spawn(ctx, session.SpawnRequest{Message: session.Message{
		Text: "TOOL bash: ls; echo the child's words > childs.txt THEN RECALL THEN GATE " + gate,
	}})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	child, err := spaceOf(t).Client.Get(ctx, reply.ChildID)
	require.NoError(t, err)
	now, err := child.Inspect(ctx)
	require.NoError(t, err)
	require.NotEqual(t, before.Title, now.Title)
	require.Empty(t, now.Options.Tags)
	require.Empty(t, now.Options.Metadata)
	require.Empty(t, now.Queued)
	require.Zero(t, now.Turns)
	require.NotEqual(t, before.Sandbox.ID, now.Sandbox.ID)
	spaceOf(t).Model.Open(gate)
	heardUntil(t, parent, 0, nth[event.SubagentCompleted](1))
	told, err := json.Marshal(fold(events(t, child)))
	require.NoError(t, err)
	require.Contains(t, string(told), "childs.txt", "the child did its task")
	for _, planted := range []string{"parents", "tamarind", "held back"} {
		require.NotContains(t, string(told), planted)
	}

	after, err := parent.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, before.Options, after.Options)
	require.Equal(t, before.Turns, after.Turns)
	require.Equal(t, before.Usage, after.Usage)
	require.NoError(t, say(t, parent, "TOOL bash: ls THEN RECALL").Err())
	require.Contains(t, lastOutput(t, parent), "parents.txt")
	require.NotContains(t, lastOutput(t, parent), "childs.txt")
	require.NoError(t, parent.Close(ctx))
}

// TestR33ThreeInputForms: a child is given by a profile's name, by a configuration in
// place, or by a profile with parts of it replaced.
func TestR33ThreeInputForms(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t, "SOJOURN_PROFILES="+writeProfile(t), "E2E_PLANTED=x")
	parent := open(t, session.Options{Agent: anyAgent(t)})
	const profile, inline, profilesModel = "the walrus of instructions", "the otter of this session", `"model":"claude-opus-4-5"`
	for _, form := range []struct {
		name         string
		options      session.Options
		told, untold []string
	}{
		{"profile", session.Options{Agent: anyAgent(t), Profile: "full"}, []string{profile, profilesModel}, []string{inline}},
		{
			"configuration", session.Options{Agent: anyAgent(t), Model: "claude-haiku-4-5", SystemPrompt: "Mention " + inline},
			[]string{inline, `"model":"claude-haiku-4-5"`}, []string{profile},
		},
		{
			"profile with overrides", session.Options{Agent: anyAgent(t), Profile: "full", Model: "claude-haiku-4-5", SystemPrompt: "Mention " + inline},
			[]string{profile, inline, `"model":"claude-haiku-4-5"`}, []string{profilesModel},
		},
	} {
		x, err := parent.SpawnExecution(testContext(t), session.SpawnRequest{Options: form.options, Message: session.Message{Text: "SAY " + form.name}})
		require.NoError(t, err, form.name)
		res, err := x.Wait(testContext(t))
		require.NoError(t, err, form.name)
		require.Equal(t, form.name, res.Response)
		told := string(last(spaceOf(t).Model.Recorded()).Body)
		for _, want := range form.told {
			require.Contains(t, told, want, form.name)
		}
		for _, not := range form.untold {
			require.NotContains(t, told, not, form.name)
		}
	}
	_, err := parent.Spawn(testContext(t), session.SpawnRequest{
		Options: session.Options{SystemPrompt: strings.Repeat("x", session.MaxSystemPrompt+1)}, Message: session.Message{Text: "SAY no"},
	})
	require.ErrorContains(t, err, "systemPrompt: is 65537 bytes; want at most 65536 bytes")
}

// TestR36SpawnOptions: a spawn replaces the agent, the model and the bound of model calls
// that the child would inherit, and has a label.
func TestR36SpawnOptions(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{Agent: anyAgent(t), Model: "claude-opus-4-5", MaxTicks: 7})
	spawned := func(o session.Options, label string) session.Inspection {
		req := session.SpawnRequest{ID: uuid.NewString(), Options: o, Message: session.Message{Text: "TOOL bash: echo one THEN SAY two"}, Description: label}
		x, err := parent.SpawnExecution(ctx, req)
		require.NoError(t, err)
		res, err := x.Wait(ctx)
		require.NoError(t, err)
		if o.MaxTicks == 1 {
			require.ErrorContains(t, res.Raw.Err(), "1 model calls are made")
		} else {
			require.Equal(t, "two", res.Response)
		}
		child, err := spaceOf(t).Client.Get(ctx, req.ID)
		require.NoError(t, err)
		i, err := child.Inspect(ctx)
		require.NoError(t, err)
		return i
	}
	inherited := spawned(session.Options{}, "")
	require.Equal(t, anyAgent(t), inherited.Agent)
	require.Equal(t, "claude-opus-4-5", inherited.Options.Model)
	require.Equal(t, 7, inherited.Options.MaxTicks)
	replaced := spawned(session.Options{Model: "claude-haiku-4-5", MaxTicks: 1}, "the label")
	require.Equal(t, "claude-haiku-4-5", replaced.Options.Model)
	require.Equal(t, 1, replaced.Options.MaxTicks)
	other := "codex"
	if anyAgent(t) == other {
		other = "claude"
	}
	replaced = spawned(session.Options{Agent: other}, "")
	require.Equal(t, other, replaced.Agent)
	require.Empty(t, replaced.Options.Model, "a model is that of one agent")
	require.NoError(t, say(t, parent, "TOOL bash: echo of the parent > parents.txt THEN SAY written").Err())
	require.Contains(t, shown(t, parent, inParents("TOOL bash: cat parents.txt THEN SAY done")), "of the parent", "in its parent's sandbox")
	labels := []string{}
	for _, ev := range events(t, parent) {
		if p, ok := ev.Payload.(event.SubagentSpawned); ok {
			labels = append(labels, p.Description)
		}
	}
	require.Equal(t, []string{"", "the label", "", ""}, labels)
}

// TestR37SelfSimilarHandle: what a spawn returns is what a send returns: the same type,
// with the child's events, answer and abort.
func TestR37SelfSimilarHandle(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	x, err := parent.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY the child's words"}})
	require.NoError(t, err)
	var sent *session.Execution = x
	require.NotEqual(t, parent.ID(), sent.Receipt().SessionID)
	var types []event.Type
	for ev, err := range sent.Events(ctx) {
		require.NoError(t, err)
		require.Equal(t, sent.Receipt().SessionID, ev.Context.SessionID)
		types = append(types, ev.Type())
	}
	require.Equal(t, event.Type("query:started"), types[0])
	require.Equal(t, event.Type("query:completed"), types[len(types)-1])
	res, err := sent.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "the child's words", res.Response)
	require.NotEmpty(t, res.Outputs)

	gate := "abort-" + uuid.NewString()
	x, err = parent.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "GATE " + gate}})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	require.NoError(t, x.Abort(ctx, "no longer wanted"))
	res, err = x.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Raw.Outcome)
	require.Equal(t, "no longer wanted", res.Raw.Reason)
}

// TestR47ConfirmationRouting: what a child's agent asks a person for comes up where the
// parent is looked at, by a program and in a chat, and the answer goes to the child.
func TestR47ConfirmationRouting(t *testing.T) {
	onSharedHost(t)
	withClaude(t) // Codex does not say for what reason it was denied
	ctx := testContext(t)
	parent := open(t, session.Options{})
	ask := func(text string) *session.Execution {
		x, err := parent.SpawnExecution(ctx, session.SpawnRequest{
			Options: session.Options{Permission: permission.Ask}, Message: session.Message{Text: text}, Description: "asks first",
		})
		require.NoError(t, err)
		return x
	}
	x := ask("TOOL bash: touch allowed THEN SAY it was allowed")
	child := x.Receipt().SessionID
	for ev, err := range parent.TreeEvents(ctx, session.TreeOptions{Follow: session.Follow}) {
		require.NoError(t, err)
		if _, asks := ev.Payload.(event.PermissionRequested); !asks {
			continue
		}
		require.Equal(t, []string{child}, ev.SpawnPath)
		require.NoError(t, parent.RespondTo(ctx, ev.Event, session.RespondRequest{Allow: true, By: "the one above"}))
		break
	}
	res, err := x.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "it was allowed", res.Response)
	require.Error(t, parent.RespondTo(ctx, event.Event{Payload: event.SessionIdle{}}, session.RespondRequest{Allow: true}))

	if testing.Short() {
		return // a terminal and its program
	}
	x = ask("TOOL bash: touch denied THEN SAY it went on")
	term := openTerminal(t, filepath.Join(shared.Bin, "sojourn"), "chat", parent.ID())
	term.shows(`touch denied`)
	term.shows(`allow\? y/n`)
	term.tmux("send-keys", "-l", "n not here")
	term.tmux("send-keys", "Enter")
	res, err = x.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "it went on", res.Response)
	term.shows(`│ it went on`)
	var told []string
	for _, ev := range eventsOf(t, x.Receipt().SessionID) {
		if p, ok := ev.Payload.(event.PermissionResolved); ok {
			told = append(told, p.Decision+": "+p.Message)
		}
	}
	require.Equal(t, []string{"deny: not here"}, told)
}

// eventsOf returns the stored events of a session.
func eventsOf(t *testing.T, id string) []event.Event {
	t.Helper()
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	return events(t, h)
}
