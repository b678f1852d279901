package workflows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// renewed plays a run that spawns a child which keeps working, and makes way for the next
// one; it returns that one with its input.
func renewed(t *testing.T, midTurn bool) (*play, session.Input) {
	t.Helper()
	p := newPlay(t)
	p.then(func() { p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) })
	if midTurn {
		p.then(func() { p.send("m1", "HOLD one") }, func() {
			p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
			p.signalText("m2", "two")
		})
	} else {
		p.then(func() { p.wish(); p.send("m1", "one") })
	}
	in := p.runToContinue()
	require.Equal(t, midTurn, in.Carried.UnderWay != nil)
	require.Len(t, in.Carried.Children, 1)
	require.NotEmpty(t, in.Carried.Children[0].RunID)
	require.Empty(t, p.w.results("child"), "the child is working")
	require.Empty(t, p.w.finished)
	p.w.mu.Lock()
	delete(p.w.running, "s1") // the attempt learns that its run has ended
	p.w.mu.Unlock()
	return p.nextRun(in), in
}

func eachRenewal(t *testing.T, f func(t *testing.T, next *play, in session.Input)) {
	t.Helper()
	for name, midTurn := range map[string]bool{"between two turns": false, "in the middle of a turn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, in := renewed(t, midTurn)
			f(t, next, in)
		})
	}
}

// TestR46AChildOutlivesItsParentsRunInWorkflow: a live child does not hold the run. The
// next run has the child, learns of its end by whatever way, and spawned and completed are
// emitted once, around the child's life.
func TestR46AChildOutlivesItsParentsRunInWorkflow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out    session.Output
		err    error
		status event.SubagentResult
		text   string
	}{
		"completed":  {session.Output{Turns: 1, Last: &event.QueryResult{Response: "done"}, CostUSD: new(0.75)}, nil, event.SubagentCompletedOK, "done"},
		"terminated": {session.Output{}, temporal.NewNonRetryableApplicationError("the session was terminated", session.TypeTerminated, nil), event.SubagentFailed, "the session was terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRenewal(t, func(t *testing.T, next *play, in session.Input) {
				next.then(
					func() {
						require.Len(t, next.snapshot().Children, 1)
						require.Equal(t, in.Carried.Children[0].RunID, next.w.awaited["child"].RunID)
						require.Empty(t, heard[event.SubagentCompleted](next.w, "s1"))
						require.NoError(t, next.w.childEnds("child", c.out, c.err))
					},
					func() { require.Empty(t, next.snapshot().Children) },
				)
				out := next.run()
				require.Empty(t, next.w.told, "the child gets no request")
				require.Len(t, heard[event.SubagentSpawned](next.w, "s1"), 1)
				ended := heard[event.SubagentCompleted](next.w, "s1")
				require.Len(t, ended, 1)
				require.Equal(t, c.status, ended[0].Status)
				require.Equal(t, c.text, *ended[0].Output)
				require.Equal(t, "spawn-child", ended[0].ToolUseID)
				if c.out.CostUSD != nil {
					require.InDelta(t, *c.out.CostUSD+0.25*float64(next.w.completed("s1")), *out.CostUSD, 1e-9, "its cost counts too")
				}
			})
		})
	}
}

// TestR41AbortPropagationAcrossRunsInWorkflow: an interrupt reaches the children of an
// earlier run.
func TestR41AbortPropagationAcrossRunsInWorkflow(t *testing.T) {
	t.Parallel()
	eachRenewal(t, func(t *testing.T, next *play, _ session.Input) {
		var got *answer
		next.then(
			func() { got = next.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough"}) },
			func() {
				require.True(t, valueOf[session.InterruptReply](t, got).Running)
				require.Equal(t, []string{"interrupt child: Parent interrupted"}, next.w.told)
				require.NoError(t, next.w.childEnds("child", session.Output{Outcome: session.Interrupted}, nil))
			},
		)
		next.run()
	})
}

// TestR42ClosePropagationAcrossRunsInWorkflow: closing closes the children of an earlier
// run, and waits for them; so does canceling the workflow.
func TestR42ClosePropagationAcrossRunsInWorkflow(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*play){
		"close":  func(p *play) { p.update(session.UpdateClose) },
		"cancel": func(p *play) { p.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRenewal(t, func(t *testing.T, next *play, _ session.Input) {
				next.then(func() { end(next) }, func() {
					require.Contains(t, next.w.told, "cancel child")
					require.Empty(t, next.w.finished, "it waits")
					require.NoError(t, next.w.childEnds("child", session.Output{}, nil))
				})
				next.runOpen()
				require.Len(t, next.w.finished, 1)
				require.Len(t, heard[event.SubagentCompleted](next.w, "s1"), 1)
			})
		})
	}
}

// A child is carried from run to run, and a repeated spawn names it in each.
func TestAChildOutlivesManyRuns(t *testing.T) {
	t.Parallel()
	p, in := renewed(t, false)
	run := in.Carried.Children[0].RunID
	for i := range 3 {
		var again *answer
		p.then(
			func() { again = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
			func() { p.wish(); p.send(fmt.Sprintf("more-%d", i), "more") },
		)
		in = p.runToContinue()
		require.Equal(t, "child", valueOf[session.SpawnReply](t, again).ChildID)
		require.Equal(t, run, in.Carried.Children[0].RunID)
		p = p.nextRun(in)
	}
	p.then(func() { require.NoError(t, p.w.childEnds("child", session.Output{}, nil)) })
	p.run()
	require.Len(t, heard[event.SubagentSpawned](p.w, "s1"), 1)
	require.Len(t, heard[event.SubagentCompleted](p.w, "s1"), 1)
}

// A spawn does not hold the run: the next one starts the child, after its subagent:spawned,
// and passes on the interrupt that followed.
func TestASpawnIsFinishedByTheNextRun(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 1 << 20
	var got, again *answer
	p.then(func() { p.send("m1", "HOLD one") }, func() {
		got = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on"))
		p.update(session.UpdateInterrupt, session.InterruptRequest{})
	}, func() {
		again = p.update(session.UpdateSpawn, spawnOf("child", "HOLD on"))
	}, func() {
		require.False(t, got.done)
		p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
		p.signalText("m2", "two")
	})
	in := p.runToContinue()
	require.Equal(t, session.SpawnReply{ChildID: "child", ToolUseID: "spawn-child", Depth: 1, Starting: true}, valueOf[session.SpawnReply](t, got))
	require.Equal(t, valueOf[session.SpawnReply](t, got), valueOf[session.SpawnReply](t, again))
	require.Len(t, in.Carried.Spawns, 1)
	require.True(t, in.Carried.Children[0].Interrupt)
	require.Empty(t, p.w.prompts("child"))
	p.w.mu.Lock()
	p.w.deaf = 0
	delete(p.w.running, "s1") // the attempt learns that its run has ended
	p.w.mu.Unlock()
	next := p.nextRun(in)
	next.then(func() { require.Empty(t, next.snapshot().Children) })
	next.run()
	require.Equal(t, "Parent interrupted", next.w.results("child")["to-child"].Reason)
	require.Len(t, heard[event.SubagentSpawned](p.w, "s1"), 1)
	require.Len(t, heard[event.SubagentCompleted](p.w, "s1"), 1)
	at := func(id string, t event.Type) int {
		return p.w.order(func(s said) bool { return s.session == id && event.TypeOf(s.payload) == t })
	}
	require.Less(t, at("s1", "subagent:spawned"), at("child", "session:initialized"))
}

// A child whose id is taken is reported when the next run finds it.
func TestASpawnThatTheNextRunCantFinish(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one") }, func() {
		p.wish()
		p.update(session.UpdateSpawn, spawnOf("child", "HOLD on"))
	})
	next := p.nextRun(p.runToContinue())
	next.with(func() { next.update(session.UpdateClose) })
	next.runOpen()
	ended := heard[event.SubagentCompleted](p.w, "s1")
	require.Len(t, ended, 1)
	require.Equal(t, event.SubagentFailed, ended[0].Status)
	require.Empty(t, p.w.prompts("child"), "the session was closed before")
}

// An answer to a permission request that no turn has taken yet does not hold the run: its
// sender gets a reply, and the next run sends the answer to the turn, once.
func TestAnAnswerIsHandedOverByTheNextRun(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 100
	var got *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			p.env.SignalWorkflow(session.SignalWaiting, session.Waiting{ExecutionID: "x1", Requests: []string{"r1", "r2"}})
		},
		func() {
			got = p.update(session.UpdateRespond, session.RespondRequest{RequestID: "r1", Allow: true})
			p.signal(session.SignalRespond, "json/plain", `{"requestId": "r2", "allow": false}`)
		},
		func() {
			require.False(t, got.done)
			p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
			p.signalText("m2", "two")
		},
	)
	in := p.runToContinue()
	require.True(t, got.done)
	require.NoError(t, got.err)
	require.Len(t, in.Carried.Answers, 2)
	require.Equal(t, []string{"r1", "r2"}, in.Carried.UnderWay.Waiting)
	p.w.mu.Lock()
	p.w.deaf, p.w.controls = 0, nil
	delete(p.w.running, "s1") // the attempt learns that its run has ended
	p.w.mu.Unlock()
	next := p.nextRun(in)
	next.then(
		func() {
			require.Equal(t, session.StatusRunning, next.snapshot().Status, "nothing waits any more")
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	next.run()
	// One of the run before may come late; the agent gets a control once by its id.
	handed := map[string]string{}
	for _, c := range p.w.controls {
		if c.Answer != nil {
			handed[c.ID] = fmt.Sprintf("%s %v", c.Answer.RequestID, c.Answer.Allow)
		}
	}
	require.ElementsMatch(t, []string{"r1 true", "r2 false"}, slices.Collect(maps.Values(handed)))
	require.Empty(t, refusals(p.w))
}

// No storm of slow requests delays a new run: here a spawn and an answer arrive with every
// step, faster than either is done.
func TestAStormOfHandlersDoesNotKeepTheRun(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 1 << 20
	p.then(func() { p.send("m1", "HOLD one") }, func() { p.env.SetCurrentHistorySize(makeWayBytes - 1) })
	var steps int
	for i := range 400 {
		p.after(10*time.Millisecond, func() {
			if p.env.IsWorkflowCompleted() {
				return
			}
			steps = i
			p.update(session.UpdateRespond, session.RespondRequest{RequestID: fmt.Sprintf("r%d", i), Allow: true})
			p.update(session.UpdateSpawn, spawnOf(fmt.Sprintf("c%d", i), "HOLD on"))
			if i == 50 {
				p.env.SetCurrentHistorySize(makeWayBytes + 1)
			}
		})
	}
	in := p.runToContinue()
	require.Less(t, steps, 60, "the run ends at once")
	require.NotEmpty(t, in.Carried.Answers)
	require.NotEmpty(t, in.Carried.Children)
}

// completed counts the executions of a session that completed.
func (w *world) completed(id string) (n int) {
	for _, res := range w.results(id) {
		if res.Outcome == session.Completed {
			n++
		}
	}
	return n
}

// TestStorm: bursts of signals by ten senders and of updates, faster than they are
// answered, across ten runs: each message is answered once, those of a sender in order, and
// nothing is lost. A short run has a tenth of them.
func TestStorm(t *testing.T) {
	t.Parallel()
	const renewals, senders = 10, 10
	bursts := 100 // of each run: one message of each sender, and an update
	if testing.Short() {
		bursts = 10
	}
	w, in := newWorld(), session.Input{SessionID: "s1", Options: session.Options{Agent: "claude"}, CreatedAt: start}
	receipts, late := map[string]int{}, ""
	for run := range renewals + 1 {
		p := playOn(t, w, in)
		if late != "" {
			p.with(func() { p.signalText(late, "text "+late) })
		}
		if run == renewals {
			p.run()
			break
		}
		for b := range bursts {
			p.then(func() {
				id := fmt.Sprintf("u-%04d", run*bursts+b)
				p.env.UpdateWorkflow(session.UpdateSend, "", &testsuite.TestUpdateCallback{
					OnAccept:   func() {},
					OnReject:   func(err error) { require.NoError(t, err) },
					OnComplete: func(v any, err error) { require.NoError(t, err); receipts[v.(session.Receipt).MessageID]++ },
				}, session.Message{ID: id, Text: "text " + id})
				for s := range senders {
					id := fmt.Sprintf("s%d-%04d", s, run*bursts+b)
					if b == bursts-1 && s == senders-1 {
						p.wish()
						late = id
					}
					p.signalText(id, "text "+id)
				}
			})
		}
		in = p.runToContinue()
		for _, rec := range in.Carried.Receipts {
			if rec.MessageID == late {
				late = "" // else the run had ended, and the server has the next one take it
			}
		}
	}
	order := map[string][]string{}
	for _, text := range w.prompts("s1") {
		id := strings.TrimPrefix(text, "text ")
		sender, _, _ := strings.Cut(id, "-")
		order[sender] = append(order[sender], id)
	}
	require.Len(t, order, senders+1)
	for sender, ids := range order {
		require.Len(t, ids, renewals*bursts, "each of %s is sent once", sender)
		require.True(t, slices.IsSorted(ids), "in the order of %s", sender)
	}
	require.Len(t, w.results("s1"), (senders+1)*renewals*bursts)
	require.Len(t, receipts, renewals*bursts)
	for id, n := range receipts {
		require.Equal(t, 1, n, id)
	}
}

// A turn that lost a host before it was carried, and loses the next one, is resumed from its
// start.
func TestALostTurnIsCarriedFromItsStart(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { require.NoError(t, p.w.lose("s1")) },
		func() { p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) }); p.signalText("m2", "two") },
	)
	next := p.nextRun(p.runToContinue())
	next.then(func() { require.NoError(t, next.w.lose("s1")) }, func() { next.letGo() })
	next.run()
	first := p.w.turns[0]
	require.Equal(t, []string{"HOLD one", "HOLD one", "HOLD one", "HOLD one", "two"}, p.w.prompts("s1"))
	require.LessOrEqual(t, p.w.turns[2].AfterSeq, first.LastSeq)
	require.Equal(t, first.Anchor, p.w.turns[2].Anchor)
	require.Equal(t, 2, p.w.turns[3].Resumes.Times)
	require.LessOrEqual(t, p.w.turns[3].Resumes.AfterSeq, first.LastSeq)
}

// A turn that was parked when it was carried has no agent: an interrupt while its next
// sandbox is made ends it without one. The test environment can't make a sandbox while the
// wait for it is cancelled.
func TestAParkedTurnIsCarriedWithoutAnAgent(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "PARK 1") },
		func() { p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) }); p.signalText("m2", "two") },
	)
	parked := &run{st: p.runToContinue().Carried}
	parked.unpack()
	require.Equal(t, "m1", parked.cur.queued.Message.ID)
	require.False(t, parked.cur.asked)
}
