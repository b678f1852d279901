package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/children"
)

func spawnOf(id, text string) session.SpawnRequest {
	return session.SpawnRequest{ID: id, Message: session.Message{ID: "to-" + id, Text: text}, Description: "a test"}
}

func TestSpawn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) {
		in.Options.Profile, in.Options.Model, in.Options.Tenant = "reviewer", "opus", "acme"
	})
	var got *answer
	p.then(
		func() { got = p.update(session.UpdateSpawn, spawnOf("child", "do this")) },
		func() { require.Empty(t, p.snapshot().Children) },
	)
	p.run()
	require.Equal(t, session.SpawnReply{ChildID: "child", ToolUseID: "spawn-child", Depth: 1}, valueOf[session.SpawnReply](t, got))
	require.Equal(t, []string{"do this"}, p.w.prompts("child"))
	in := p.w.begun[1].Session
	require.Equal(t, session.Parent{SessionID: "s1", Root: "s1", Depth: 1, ToolUseID: "spawn-child"}, *in.Parent)
	require.Equal(t, session.Options{Agent: "claude", Profile: "reviewer", Model: "opus", Tenant: "acme", Title: "do this"}, in.Options)
	require.NotEqual(t, p.w.turns[0].Sandbox.ID, "s1-e2", "a sandbox of its own")

	spawned := heard[event.SubagentSpawned](p.w, "s1")
	require.Len(t, spawned, 1)
	require.Equal(t, "child", spawned[0].ChildSessionID)
	ended := heard[event.SubagentCompleted](p.w, "s1")
	require.Len(t, ended, 1)
	require.Equal(t, event.SubagentCompletedOK, ended[0].Status)
	require.Equal(t, "echo: do this", *ended[0].Output)
}

// subagent:spawned and subagent:completed are strictly around the child's life.
func TestSpawnEventsEncloseTheChild(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.update(session.UpdateSpawn, spawnOf("child", "do this")) })
	p.run()
	at := func(id string, t event.Type) int {
		return p.w.order(func(s said) bool { return s.session == id && event.TypeOf(s.payload) == t })
	}
	spawned, begun := at("s1", "subagent:spawned"), at("child", "session:initialized")
	closed, ended := at("child", "session:closed"), at("s1", "subagent:completed")
	require.True(t, 0 <= spawned && spawned < begun && begun < closed && closed < ended,
		"spawned %d, begun %d, closed %d, completed %d", spawned, begun, closed, ended)
}

// TestR43DepthLimitInWorkflow: 10 levels; the 11th is refused with "Maximum
// spawn depth (10) exceeded"; the check is depth >= 10 at the spawning session,
// root = 0.
func TestR43DepthLimitInWorkflow(t *testing.T) {
	t.Parallel()
	const levels = 10
	p := newPlay(t)
	id := func(depth int) string { return fmt.Sprintf("d%d", depth) }
	answers := make([]*answer, levels+2)
	p.then(func() { answers[1] = p.update(session.UpdateSpawn, spawnOf(id(1), "HOLD 1")) })
	for depth := 2; depth <= levels+1; depth++ {
		p.then(func() {
			answers[depth] = p.updateChild(id(depth-1), session.UpdateSpawn, spawnOf(id(depth), fmt.Sprintf("HOLD %d", depth)))
		})
	}
	p.run()
	for depth := 1; depth <= levels; depth++ {
		require.Equal(t, depth, valueOf[session.SpawnReply](t, answers[depth]).Depth)
		require.Len(t, p.w.prompts(id(depth)), 1)
	}
	refused := answers[levels+1].refused
	require.ErrorIs(t, session.FromTemporal(refused), session.ErrDepthLimit)
	require.ErrorContains(t, refused, "Maximum spawn depth (10) exceeded")
	require.Empty(t, p.w.prompts(id(levels+1)))
}

// TestR44CleanupInWorkflow: a child is removed from children on completion,
// success or error, and when it is cancelled.
func TestR44CleanupInWorkflow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		end    func(*play)
		status event.SubagentResult
		output string
	}{
		"HOLD and succeed": {func(p *play) { require.NoError(p, p.w.letGo("child")) }, event.SubagentCompletedOK, "echo: HOLD and succeed"},
		"HOLD then close":  {func(p *play) { p.updateChild("child", session.UpdateClose) }, event.SubagentFailed, "ended without an answer"},
		"FAIL":             {nil, event.SubagentFailed, "the agent said no"},
		"HOLD then interrupt": {func(p *play) {
			p.updateChild("child", session.UpdateInterrupt, session.InterruptRequest{})
		}, event.SubagentFailed, "ended without an answer"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.update(session.UpdateSpawn, spawnOf("child", text)) })
			if want.end != nil {
				p.then(func() {
					live := p.snapshot().Children
					require.Len(t, live, 1)
					require.NotEmpty(t, live[0].RunID)
					require.Equal(t, session.Child{SessionID: "child", ToolUseID: "spawn-child", Agent: "claude", RunID: live[0].RunID}, live[0])
					want.end(p)
				})
			}
			p.then(func() { require.Empty(t, p.snapshot().Children) })
			p.run()
			ended := heard[event.SubagentCompleted](p.w, "s1")
			require.Len(t, ended, 1)
			require.Equal(t, want.status, ended[0].Status)
			require.Equal(t, want.output, *ended[0].Output)
		})
	}
}

// TestR35ParallelSpawnsInWorkflow: children that are spawned together run concurrently, and
// one child's outcome doesn't affect the others.
func TestR35ParallelSpawnsInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	ids := func() (live []string) {
		for _, c := range p.snapshot().Children {
			live = append(live, c.SessionID)
		}
		return live
	}
	p.then(
		func() {
			for _, id := range []string{"a", "b", "c"} {
				p.update(session.UpdateSpawn, spawnOf(id, "HOLD "+id))
			}
		},
		func() {
			require.Equal(t, []string{"a", "b", "c"}, ids())
			for _, id := range ids() {
				require.Equal(t, []string{"HOLD " + id}, p.w.prompts(id), "all are at work")
			}
			p.updateChild("a", session.UpdateClose)
		},
		func() {
			require.Equal(t, []string{"b", "c"}, ids())
			require.NoError(t, p.w.letGo("c"))
		},
		func() {
			require.Equal(t, []string{"b"}, ids(), "it does not wait for the one before it")
			require.NoError(t, p.w.letGo("b"))
		},
		func() { require.Empty(t, ids()) },
	)
	p.run()
	var ends []string
	for _, end := range heard[event.SubagentCompleted](p.w, "s1") {
		ends = append(ends, fmt.Sprintf("%s %s: %s", end.ChildSessionID, end.Status, *end.Output))
	}
	require.Equal(t, []string{"a failed: ended without an answer", "c completed: echo: HOLD c", "b completed: echo: HOLD b"}, ends)
}

// An interrupted child has not completed, whatever it had answered by then.
func TestAnInterruptedChildHasNotCompleted(t *testing.T) {
	t.Parallel()
	half := session.Output{Turns: 1, Outcome: session.Interrupted, Last: &event.QueryResult{Response: "half of"}}
	require.Equal(t, event.SubagentFailed, children.Completed(session.Child{SessionID: "child"}, half, nil).Status)
	half.Outcome = session.Completed
	require.Equal(t, event.SubagentCompletedOK, children.Completed(session.Child{SessionID: "child"}, half, nil).Status)
	half.Outcome = ""
	require.Equal(t, event.SubagentCompletedOK, children.Completed(session.Child{SessionID: "child"}, half, nil).Status, "a child of an older build")
}

// TestR45EphemeralInWorkflow: children are never in the app's registry.
func TestR45EphemeralInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.update(session.UpdateSpawn, spawnOf("child", "do this")) })
	p.run()
	require.Len(t, p.w.finished, 2)
	require.Equal(t, "child", p.w.finished[0].Session.SessionID)
	require.True(t, p.w.finished[0].Unlisted)
	require.False(t, p.w.finished[1].Unlisted)
}

// TestR41AbortPropagationInWorkflow: aborting the parent's execution aborts all
// children, at every level.
func TestR41AbortPropagationInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD parent") },
		func() {
			p.update(session.UpdateSpawn, spawnOf("a", "HOLD a"))
			p.update(session.UpdateSpawn, spawnOf("b", "HOLD b"))
		},
		func() { p.updateChild("a", session.UpdateSpawn, spawnOf("aa", "HOLD aa")) },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough"}) },
		func() { require.Empty(t, p.snapshot().Children) },
	)
	p.run()
	require.Equal(t, "enough", p.w.results("s1")["m1"].Reason)
	for _, id := range []string{"a", "b", "aa"} {
		res := p.w.results(id)["to-"+id]
		require.Equal(t, session.Interrupted, res.Outcome, id)
		require.Equal(t, "Parent interrupted", res.Reason, id)
	}
}

// The parent's own turn need not run for its interrupt to reach the children.
func TestAnIdleParentInterruptsItsChildren(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{}) },
	)
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("child")["to-child"].Outcome)
}

// An interrupt right after the spawn reaches a child that has not started.
func TestAChildIsInterruptedBeforeItBegins(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() {
		p.update(session.UpdateSpawn, spawnOf("child", "HOLD on"))
		p.update(session.UpdateInterrupt, session.InterruptRequest{})
	}, func() { require.Empty(t, p.snapshot().Children) })
	p.run()
	require.Equal(t, "Parent interrupted", p.w.results("child")["to-child"].Reason)
}

// What interrupts a child before its first turn interrupts the work that it was spawned for,
// not the message that comes in its place.
func TestAMessageGoesFirstBeforeAChildBegins(t *testing.T) {
	t.Parallel()
	second := session.Message{ID: "m2", Text: "two", WhenBusy: session.BusyInterrupt}
	for name, c := range map[string]struct {
		interrupt func(p *play)
		prompts   []string
	}{
		"send":      {func(p *play) { p.update(session.UpdateSend, second) }, []string{"two"}},
		"interrupt": {func(p *play) { p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &second}) }, []string{"two"}},
		"clear": {func(p *play) {
			p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "never mind", ClearQueue: true})
		}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, func(in *session.Input) {
				in.First, in.Parent = &session.Message{ID: "m1", Text: "one"}, &session.Parent{SessionID: "parent", Root: "parent", Depth: 1, ToolUseID: "t"}
			})
			p.w.beginning = func() { c.interrupt(p) }
			var left []session.Message
			p.after(time.Minute, func() { left = p.snapshot().Queued; p.update(session.UpdateClose) })
			out := p.runOpen()
			require.Empty(t, left)
			require.Equal(t, c.prompts, p.w.prompts("s1"))
			require.Equal(t, "completed", p.w.finished[0].Reason, "it ends with its work")
			require.Equal(t, 1+len(c.prompts), out.Turns)
			require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
		})
	}
}

// TestR42ClosePropagationInWorkflow: closing the parent closes all children,
// and waits for them.
func TestR42ClosePropagationInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD parent") },
		func() { p.update(session.UpdateSpawn, spawnOf("a", "HOLD a")) },
		func() { p.updateChild("a", session.UpdateSpawn, spawnOf("aa", "HOLD aa")) },
		func() { p.updateChild("aa", session.UpdateSend, session.Message{ID: "later", Text: "never"}) },
	)
	p.run()
	require.Equal(t, []string{"HOLD aa"}, p.w.prompts("aa"), "closed, not interrupted only")
	var order []string
	for _, f := range p.w.finished {
		order = append(order, f.Session.SessionID)
	}
	require.Equal(t, []string{"aa", "a", "s1"}, order)
	require.Len(t, p.w.ended, 3, "every sandbox is ended")
	for _, id := range []string{"a", "aa"} {
		require.Empty(t, heard[event.Error](p.w, id), "being closed by the parent is no error of the child")
	}
}

// A close right after a spawn leaves no child running.
func TestCloseRightAfterSpawn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var spawned *answer
	p.then(func() {
		spawned = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on"))
		p.update(session.UpdateClose)
	})
	p.runOpen()
	require.True(t, spawned.done)
	require.Len(t, heard[event.SubagentCompleted](p.w, "s1"), len(heard[event.SubagentSpawned](p.w, "s1")))
	require.Equal(t, "s1", p.w.finished[len(p.w.finished)-1].Session.SessionID)
	for range p.w.prompts("child") {
		require.Equal(t, session.Interrupted, p.w.results("child")["to-child"].Outcome)
	}
}

// A child takes further messages while it lives, and ends when its queue is empty.
func TestAChildEndsWhenItsQueueIsEmpty(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.update(session.UpdateSpawn, spawnOf("child", "HOLD one")) },
		func() { p.updateChild("child", session.UpdateSend, session.Message{ID: "m2", Text: "two"}) },
		func() { require.NoError(t, p.w.letGo("child")) },
		func() { require.Empty(t, p.snapshot().Children) },
	)
	p.run()
	require.Equal(t, []string{"HOLD one", "two"}, p.w.prompts("child"))
	require.Equal(t, "completed", p.w.finished[0].Reason)
	require.Equal(t, "echo: two", *heard[event.SubagentCompleted](p.w, "s1")[0].Output)
}

func TestSpawnIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	bad := map[string]session.SpawnRequest{
		"id":                  spawnOf("not an id", "text"),
		"message.text":        spawnOf("child", " "),
		"permission":          {ID: "child", Message: session.Message{Text: "text"}, Options: session.Options{Permission: "maybe"}},
		"the parent's own id": {ID: "s1", Message: session.Message{Text: "text"}},
	}
	answers := map[string]*answer{}
	p.then(func() {
		for field, req := range bad {
			answers[field] = p.update(session.UpdateSpawn, req)
		}
	})
	p.run()
	for field, a := range answers {
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(a.refused), &invalid, field)
		if field != "the parent's own id" {
			require.Equal(t, field, invalid.Field)
		}
	}
	require.Empty(t, heard[event.SubagentSpawned](p.w, "s1"))
}

func TestARepeatedSpawnNamesTheSameChild(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var first, again *answer
	p.then(
		func() { first = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
		func() { again = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
	)
	p.run()
	require.Equal(t, valueOf[session.SpawnReply](t, first), valueOf[session.SpawnReply](t, again))
	require.Len(t, p.w.prompts("child"), 1)
}

// A session's cost includes its turns and its ended children, and the search attribute
// follows.
func TestCostOfTheTree(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() {
			require.Nil(t, p.snapshot().CostUSD, "no cost was reported")
			p.update(session.UpdateSpawn, spawnOf("child", "do this"))
		},
		func() {
			require.Empty(t, p.snapshot().Children)
			require.InDelta(t, 0.25, *p.snapshot().CostUSD, 1e-9, "the child's")
			p.send("m1", "and this")
		},
		func() { require.InDelta(t, 0.5, *p.snapshot().CostUSD, 1e-9, "the child's and its own") },
	)
	p.run()
}

// TestEphemeralWithoutATurn: an ephemeral session whose only message is cancelled before it ran
// has done its work.
func TestEphemeralWithoutATurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) {
		in.Ephemeral, in.First = true, &session.Message{ID: "m1", Text: "never"}
	})
	var cancelled *answer
	p.w.beginning = func() {
		p.w.beginning = nil
		cancelled = p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m1", Cancel: true, Reason: "not any more"})
	}
	out := p.runOpen()
	require.NoError(t, cancelled.refused)
	require.Zero(t, out.Turns)
	require.Empty(t, p.w.prompts("s1"))
}
