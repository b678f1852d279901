package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestIdleTimeoutEndsTheSandboxNotTheSession(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Minute.Milliseconds() })
	p.then(func() { p.send("m1", "one") })
	p.after(59*time.Second, func() {
		require.NotNil(t, p.snapshot().Sandbox)
		p.update(session.UpdateConfigure, session.Configure{Title: ptr("a look is no activity")})
	})
	p.after(2*time.Second, func() {
		require.Nil(t, p.snapshot().Sandbox)
		require.Equal(t, session.StatusIdle, p.snapshot().Status)
		require.Equal(t, "idle", p.w.ended[0].Reason)
	})
	p.after(time.Hour, func() { p.send("m2", "two") })
	p.run()
	require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
	require.Len(t, p.w.places, 2)
	require.NotEqual(t, p.w.turns[0].Sandbox.ID, p.w.turns[1].Sandbox.ID)
	require.Equal(t, uint64(3), p.w.turns[1].Sandbox.Epoch)
}

// TestR125IdleTimeoutCountsFromActivity: sending, rendering and queueing are activity;
// reading and changing a title are not. A working session is never idle.
func TestR125IdleTimeoutCountsFromActivity(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*play){
		"send": func(p *play) { p.send("m2", "two") },
		"render": func(p *play) {
			p.update(session.UpdateRender, session.RenderRequest{Options: session.Configure{Title: ptr("two")}})
		},
		"queue": func(p *play) { p.signal(session.SignalQueue, "json/plain", `{"text": "two"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Minute.Milliseconds() })
			p.then(func() { p.send("m1", "one") })
			p.after(50*time.Second, func() { act(p) })
			p.after(50*time.Second, func() {
				require.NotNil(t, p.snapshot().Sandbox)
				p.inspect()
				p.update(session.UpdateConfigure, session.Configure{Title: ptr("new")})
			})
			p.after(15*time.Second, func() {
				require.Nil(t, p.snapshot().Sandbox)
				require.Equal(t, "idle", p.w.ended[0].Reason)
			})
			p.run()
		})
	}
}

// TestR108BackgroundKeepsTheSandboxInWorkflow: running background commands keep the sandbox
// for a day at most, and checks become rare; an eviction does not check.
func TestR108BackgroundKeepsTheSandboxInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Minute.Milliseconds() })
	p.then(func() { p.w.background = []string{"make"} }, func() { p.send("m1", "one") })
	p.after(10*time.Minute, func() {
		require.NotNil(t, p.snapshot().Sandbox)
		require.Equal(t, []string{"make"}, p.inspect().Background)
		require.Len(t, p.w.ended, 3, "after 1, 2 and 4 minutes more")
		p.send("m2", "two")
	})
	p.after(90*time.Second, func() {
		require.Len(t, p.w.ended, 4, "sending is activity, and the timeouts start again")
		p.w.background = nil
	})
	p.after(2*time.Minute, func() {
		require.Nil(t, p.snapshot().Sandbox)
		require.Empty(t, p.inspect().Background)
		p.w.background = []string{"watch"}
		p.send("m3", "three")
	})
	p.after(23*time.Hour, func() { require.NotNil(t, p.snapshot().Sandbox) })
	p.after(2*time.Hour, func() {
		require.Nil(t, p.snapshot().Sandbox, "a day is enough")
		p.send("m4", "four")
	})
	p.then(func() { p.update(session.UpdateEvict) })
	p.after(time.Second, func() { require.Nil(t, p.snapshot().Sandbox) })
	p.run()
}

// An idle timeout that is changed while the session is idle applies from then on.
func TestAnIdleTimeoutCountsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Hour.Milliseconds() })
	p.then(func() { p.send("m1", "one") })
	p.after(10*time.Second, func() {
		require.NotNil(t, p.snapshot().Sandbox)
		p.update(session.UpdateConfigure, session.Configure{IdleTimeoutMS: ptr(time.Minute.Milliseconds())})
	})
	p.after(59*time.Second, func() { require.NotNil(t, p.snapshot().Sandbox) })
	p.after(2*time.Second, func() {
		require.Nil(t, p.snapshot().Sandbox)
		require.Equal(t, "idle", p.w.ended[0].Reason)
	})
	p.run()
}

func TestIdleTimeDoesNotCountWhileATurnRuns(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Minute.Milliseconds() })
	p.then(func() { p.send("m1", "HOLD for hours") })
	p.after(5*time.Hour, func() {
		require.Empty(t, p.w.ended)
		require.NoError(t, p.w.letGo("s1"))
	})
	p.run()
	require.Equal(t, session.Completed, p.w.results("s1")["m1"].Outcome)
}

func TestEvict(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var nothing, running, queued, good *answer
	p.then(
		func() { nothing = p.update(session.UpdateEvict) },
		func() { p.send("m1", "HOLD one") },
		func() { running = p.update(session.UpdateEvict) },
		func() { require.NoError(t, p.w.letGo("s1")) },
		func() { good = p.update(session.UpdateEvict) },
		func() {
			require.Nil(t, p.snapshot().Sandbox)
			require.Equal(t, session.StatusIdle, p.snapshot().Status)
			p.w.crowded = true
			p.send("m2", "two")
		},
		func() { queued = p.update(session.UpdateEvict) },
		func() {
			require.Equal(t, "waiting for a sandbox", p.inspect().Phase)
			require.Contains(t, p.inspect().WaitsFor, "a free slot on a host")
		},
		func() { require.NoError(t, p.w.makeRoom()) },
	)
	p.run()
	require.NoError(t, nothing.refused)
	require.NoError(t, good.refused)
	for _, a := range []*answer{running, queued} {
		require.ErrorIs(t, session.FromTemporal(a.refused), session.ErrBusy)
	}
	require.Equal(t, "manual", p.w.ended[0].Reason)
	require.Equal(t, []string{"HOLD one", "two"}, p.w.prompts("s1"))
	require.Len(t, p.w.places, 2)
}

// A second eviction, or one at the idle timeout, finds nothing to end.
func TestEvictWhileTheSandboxEnds(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	again := true
	p.w.ending = func() {
		if again {
			again = false
			p.update(session.UpdateEvict)
		}
	}
	p.then(func() { p.send("m1", "one") }, func() { p.update(session.UpdateEvict) }, func() { p.send("m2", "two") })
	p.run()
	require.Len(t, p.w.ended, 2)
	require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
}

// A message that arrives while the sandbox ends, which may take as long as the archive is
// away, waits to run: the session is not idle.
func TestNotIdleWhileAMessageWaitsForTheSandboxToEnd(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var waiting session.Inspection
	p.w.ending = func() {
		p.w.ending = nil
		look := (&answer{}).callbacks()
		look.OnComplete = func(any, error) { waiting = p.inspect() }
		p.env.UpdateWorkflow(session.UpdateSend, "", look, session.Message{ID: "m2", Text: "two"})
	}
	p.then(func() { p.send("m1", "one") }, func() { p.update(session.UpdateEvict) })
	p.run()
	require.Empty(t, waiting.CurrentExecution)
	require.Len(t, waiting.Queued, 1)
	require.Equal(t, "waiting for a sandbox", waiting.Phase)
	require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
}

func TestHostLost(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "LOST in the fire") },
		func() {
			i := p.inspect()
			require.Nil(t, i.Sandbox)
			require.Equal(t, 1+maxHosts, i.Restarts)
			require.Equal(t, session.TypeHostLost, i.Failure.Code)
		},
		func() { p.send("m2", "two") },
	)
	p.run()
	res := p.w.results("s1")["m1"]
	require.Equal(t, session.Failed, res.Outcome)
	require.Equal(t, session.TypeHostLost, res.Error.Code)
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
	require.Equal(t, &session.Lost{Host: host, Times: maxHosts, AfterSeq: 1}, p.w.turns[maxHosts].Resumes, "the worker that ended is not why the host is lost")
	require.Len(t, p.w.places, 2+maxHosts)
	require.Equal(t, 1, p.w.places[1].Restarts)
	require.Len(t, p.w.ended, 1, "the lost sandboxes have no host to end them")
}

// The next turn in another sandbox, and only that, looks for what the archive missed when a
// host was lost.
func TestALostHostTakesWhatWasNotArchived(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "archived") },
		func() { p.w.behind = "S3 is away"; p.send("m2", "not archived") },
		func() { p.send("m3", "neither") },
		func() { p.w.behind = ""; p.send("m4", "LOST 1 of them") },
		func() { p.send("m5", "LOST 1 again") },
	)
	p.run()
	of := map[string][]*session.Unarchived{}
	for _, in := range p.w.turns {
		of[in.Message.ID] = append(of[in.Message.ID], in.Unarchived)
	}
	second := p.w.turns[1]
	require.Equal(t, []*session.Unarchived{nil}, of["m3"], "the sandbox that has it is live")
	require.Equal(t, []*session.Unarchived{nil, {
		AfterSeq: second.LastSeq, Anchor: second.Anchor, Epoch: second.Sandbox.Epoch,
		Messages: []session.Message{{ID: "m2", Text: "not archived"}, {ID: "m3", Text: "neither"}},
	}}, of["m4"])
	require.Equal(t, []*session.Unarchived{nil, nil}, of["m5"])
}

// An execution that is given up with its host may have ended before that was reported to
// Temporal: that end counts. Writers with the lost host's epoch are fenced.
func TestAForsakenExecutionEndsOnce(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.endedBefore = &session.Result{ExecutionID: "x1", MessageID: "m1", Outcome: session.Completed, Result: &event.QueryResult{Response: "said before", CostUSD: new(2.0)}}
	p.then(
		func() { p.send("m1", "LOST in the fire") },
		func() {
			i := p.inspect()
			require.Nil(t, i.Failure)
			require.EqualValues(t, 2, *i.CostUSD)
			p.w.endedBefore = nil
		},
		func() { p.send("m2", "LOST in the flood") },
	)
	p.run()
	first := p.w.emits[0]
	require.Equal(t, &contract.Abort{
		Agent: "claude", ExecutionID: "x1", MessageID: "m1", Message: session.Message{ID: "m1", Text: "LOST in the fire"}, AfterSeq: 1,
	}, first.Abort)
	require.True(t, first.TakeEpoch)
	require.NotContains(t, p.w.results("s1"), "m1", "the known end is not overwritten")
	require.Equal(t, session.TypeHostLost, p.w.results("s1")["m2"].Error.Code)
}

// A turn whose host is lost continues on another one, as the same execution.
func TestALostHostsTurnIsResumed(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "LOST 2 of them") })
	p.run()
	require.Equal(t, session.Completed, p.w.results("s1")["m1"].Outcome)
	require.Len(t, p.w.turns, 3)
	first, last := p.w.turns[0], p.w.turns[2]
	require.Nil(t, first.Resumes)
	require.Equal(t, &session.Lost{Host: host, Times: 2, AfterSeq: 1}, last.Resumes)
	require.Equal(t, first.ExecutionID, last.ExecutionID)
	require.Greater(t, last.Sandbox.Epoch, first.Sandbox.Epoch)
	require.Len(t, heard[event.QueryCompleted](p.w, "s1"), 1)
}

// TestAClosingSessionKnowsItsLostEnd: a closing session uses no other host, and still takes
// the end that is known from the lost one.
func TestAClosingSessionKnowsItsLostEnd(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 100
	ended := session.Result{ExecutionID: "x1", MessageID: "m1", Outcome: session.Completed, Result: &event.QueryResult{Response: "said before"}}
	p.then(
		func() { p.send("m1", "HOLD its end") },
		func() { p.update(session.UpdateClose) },
		func() {
			require.NoError(t, p.w.complete(p.w.running["s1"].token, nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, contract.HeartbeatDetails{Ended: &ended})))
		},
	)
	out := p.runOpen()
	require.Equal(t, session.Completed, out.Outcome)
	require.Equal(t, "said before", out.Last.Response)
	require.Empty(t, heard[event.QueryFailed](p.w, "s1"))
}

// TestALostHostsEndIsKnown: if the host is lost before its ended turn completes, the host's
// last heartbeat has the end, and the next host gets it.
func TestALostHostsEndIsKnown(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "ENDED here") })
	p.run()
	require.Len(t, p.w.turns, 2)
	ended := p.w.turns[1].Resumes.Ended
	require.NotNil(t, ended)
	require.Equal(t, "m1", ended.MessageID)
	require.Equal(t, p.w.turns[0].ExecutionID, ended.ExecutionID)
	lost := &turn{lost: &session.Lost{Ended: ended}}
	require.Equal(t, ended, lost.endedBefore(temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)), "a host that never started reports nothing else")
	require.Nil(t, (&turn{}).endedBefore(temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, contract.HeartbeatDetails{Phase: "running"})))
}

// TestALostHostsEndKeepsWhatItAnswered: a message that was folded into a turn, whose end is known
// from the lost host's last heartbeat alone, is handed to the next host: with the stream deleted
// no one else has it.
func TestALostHostsEndKeepsWhatItAnswered(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	ended := session.Result{ExecutionID: "x1", MessageID: "m1", MessageIDs: []string{"m1", "m2"}, Outcome: session.Completed, Result: &event.QueryResult{Response: "said before"}}
	p.then(
		func() { p.send("m1", "HOLD its end") },
		func() { p.steer("m2", "steered") },
		func() {
			require.NoError(t, p.w.complete(p.w.running["s1"].token, nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, contract.HeartbeatDetails{Ended: &ended})))
		},
	)
	p.run()
	require.Greater(t, len(p.w.turns), 1)
	next := p.w.turns[1]
	require.Equal(t, &ended, next.Resumes.Ended)
	require.NotNil(t, next.Unarchived)
	require.Len(t, next.Unarchived.Messages, 1)
	require.Equal(t, "steered", next.Unarchived.Messages[0].Text)
	require.Less(t, next.Unarchived.Epoch, next.Sandbox.Epoch)
}

// TestR68LostSandboxIsHandedOnInWorkflow: a sandbox that is lost with its host is passed to
// the next writer, once: the one that makes the next sandbox, or the one that closes the
// session. One that could not be ended is terminated too.
func TestR68LostSandboxIsHandedOnInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "LOST 1 of them") },
		func() { p.update(session.UpdateEvict) },
		func() { p.send("m2", "two") },
		func() { p.send("m3", "LOST in the fire") },
	)
	p.run()
	require.Nil(t, p.w.places[0].Lost)
	require.Equal(t, &p.w.turns[0].Sandbox, p.w.places[1].Lost)
	require.Nil(t, p.w.places[2].Lost, "it is reported")
	for i, in := range p.w.places[3:] {
		require.Equal(t, &p.w.turns[3+i].Sandbox, in.Lost)
	}
	require.Len(t, p.w.finished, 1)
	require.Equal(t, p.w.turns[len(p.w.turns)-1].Sandbox.ID, p.w.finished[0].Lost.ID)
}

// A sandbox whose host does not answer when it is to be ended is given up.
func TestASandboxOfALostHostDoesNotHoldTheClose(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one") }, func() { p.w.mu.Lock(); p.w.lostHosts = true; p.w.mu.Unlock() })
	p.run()
	require.Len(t, heard[event.EEError](p.w, "s1"), 1)
	gone := heard[event.EETerminated](p.w, "s1")
	require.Len(t, gone, 1)
	require.Equal(t, "unhealthy", gone[0].Reason)
	require.Len(t, p.w.finished, 1)
	require.Nil(t, p.w.finished[0].Lost, "it is reported")
}

// A failed CreateSandbox has taken an epoch; the failure is written nevertheless, and the
// next message is tried again.
func TestAnAgentThatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.noAgent = true
	p.then(
		func() { p.send("m1", "one") },
		func() { p.w.noAgent = false; p.send("m2", "two") },
	)
	p.run()
	res := p.w.results("s1")
	require.Equal(t, session.Failed, res["m1"].Outcome)
	require.Equal(t, session.TypeAgentMissing, res["m1"].Error.Code)
	require.Equal(t, session.Completed, res["m2"].Outcome)
	blocks := heard[event.BlockUpsert](p.w, "s1")
	require.Len(t, blocks, 2)
	require.Equal(t, event.MessageBlock("m1", "one", nil), blocks[0], "no agent ever had it")
	require.Equal(t, event.BlockError, blocks[1].Block.Type)
}

// A session that waits for a slot can be closed.
func TestCloseWhileNoPlaceIsFree(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.crowded = true
	p.then(func() { p.send("m1", "one") }, func() { p.update(session.UpdateConfigure, session.Configure{Title: ptr("later")}) })
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Len(t, heard[event.OptionsUpdate](p.w, "s1"), 1)
	require.Empty(t, p.w.ended)
}

func TestAnAgentThatExitsCountsAsARestart(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "EXIT now") }, func() { require.Equal(t, 1, p.inspect().Restarts) })
	p.run()
}

// A host that did not answer when its sandbox was to be ended may still have it, and end it
// only under a higher epoch: the next write takes one.
func TestALostIdleSandboxIsFenced(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.IdleTimeoutMS = time.Minute.Milliseconds() })
	p.then(func() { p.send("m1", "one") }, func() { p.w.mu.Lock(); p.w.lostHosts = true; p.w.mu.Unlock() })
	p.after(2*time.Minute, func() {
		require.Nil(t, p.snapshot().Sandbox)
		require.Len(t, p.w.emits, 1)
		require.True(t, p.w.emits[0].TakeEpoch)
		require.Greater(t, p.inspect().Epoch, p.w.turns[0].Sandbox.Epoch)
	})
	p.run()
}

// The end of a later sandbox does not make up for what an earlier one took with it.
func TestALaterSandboxDoesNotHaveWhatWasNotArchived(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.w.behind = "S3 is away"; p.send("m1", "not archived") },
		func() { p.w.behind, p.w.lostHosts = "", true; p.update(session.UpdateEvict) },
		func() { p.w.lostHosts = false; p.send("m2", "FAIL to start") },
		func() {
			require.NotEmpty(t, p.inspect().ArchiveBehind)
			p.update(session.UpdateEvict)
		},
		func() {
			require.Len(t, p.w.ended, 1)
			require.NotEmpty(t, p.inspect().ArchiveBehind)
			p.send("m3", "compares")
		},
		func() { require.Empty(t, p.inspect().ArchiveBehind) },
	)
	p.run()
	first, last := p.w.turns[0], p.w.turns[2]
	require.NotNil(t, last.Unarchived)
	require.Equal(t, first.Sandbox.Epoch, last.Unarchived.Epoch)
	require.Equal(t, first.LastSeq, last.Unarchived.AfterSeq)
}

// A wish to end a sandbox ends with it: the next one is on another host.
func TestAWishToEvictEndsWithItsSandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var drained *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			drained = p.update(session.UpdateEvict, session.EvictRequest{Reason: session.EvictForDrain, SandboxID: p.snapshot().Sandbox.ID})
			p.w.hostOf["s1"] = "h2"
		},
		func() { require.NoError(t, p.w.lose("s1")) },
		func() { p.letGo() },
		func() {
			require.NotNil(t, p.snapshot().Sandbox)
			require.Equal(t, "h2", p.snapshot().Sandbox.Host)
			require.Empty(t, p.w.ended)
		},
	)
	p.run()
	require.NoError(t, drained.refused)
}
