package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func (p *play) steer(id, text string) *answer {
	return p.update(session.UpdateSend, session.Message{ID: id, Text: text, WhenBusy: session.BusySteer})
}

func (p *play) letGo() { require.NoError(p, p.w.letGo("s1")) }

// TestR24SteeringInWorkflow: a message that arrives while a turn runs is folded into it,
// and both have its result; one that arrives at the end starts a new execution.
func TestR24SteeringInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var steered, again, edited, late *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() { steered = p.steer("m3", "three") },
		func() { again = p.steer("m3", "three") },
		func() {
			require.Len(t, p.snapshot().Queued, 2, "it is the session's until an execution has ended with it")
			edited = p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Cancel: true})
			p.letGo()
		},
		func() { late = p.steer("m4", "four") },
	)
	var results []session.Result
	p.then(func() {
		for _, id := range []string{"x1", "m3", "x3", "x2"} {
			results = append(results, queried[session.Result](p, session.QueryResult, id))
		}
	})
	p.run()
	require.Equal(t, session.HandlingHanded, p.receipt(steered).Handling)
	require.Equal(t, p.receipt(steered), p.receipt(again))
	require.ErrorContains(t, edited.refused, "was handed to the running turn")
	require.Equal(t, session.HandlingQueued, p.receipt(late).Handling)
	require.Equal(t, []string{"HOLD one", "two", "four"}, p.w.prompts("s1"))
	require.Equal(t, "x1", p.w.results("s1")["m3"].ExecutionID)
	require.Equal(t, "x4", p.w.results("s1")["m4"].ExecutionID)
	for i, want := range [][2]string{{"x1", "m1"}, {"x1", "m3"}, {"x1", "m3"}, {"x2", "m2"}} {
		require.Equal(t, want, [2]string{results[i].ExecutionID, results[i].MessageID})
	}
	require.Equal(t, []string{"m1", "m3"}, results[0].MessageIDs)
	require.Equal(t, 3, p.w.finished[0].Record.Turns)
}

// What the turn can't take waits as usual, and can be changed.
func TestSteeringIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.unsteered = 1
	var idle, refused, interrupting *answer
	p.then(
		func() { idle = p.steer("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() { refused = p.steer("m3", "three") },
		func() {
			p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Message: &session.Message{Text: "changed"}})
			p.w.deaf = 1
			p.update(session.UpdateInterrupt, session.InterruptRequest{})
			interrupting = p.steer("m4", "four")
		},
	)
	p.run()
	for _, a := range []*answer{idle, refused, interrupting} {
		require.Equal(t, session.HandlingQueued, p.receipt(a).Handling)
	}
	require.Equal(t, []string{"HOLD one", "two", "changed", "four"}, p.w.prompts("s1"))
	require.Empty(t, p.w.steered)
}

// A message that an agent was sent and did not take stays with the session and runs next.
// If no answer arrived, it is unknown whether the agent was sent it.
func TestSteeredAndNotTakenRunsNext(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		p := newPlay(t)
		p.w.forgets, p.w.mute = true, mute
		var steered, edited *answer
		p.then(
			func() { p.send("m1", "HOLD one") },
			func() { p.send("m2", "two") },
			func() { steered = p.steer("m3", "three") },
			func() { p.steer("m4", "four") },
			func() {
				edited = p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Place: ptr(0)})
				p.letGo()
			},
		)
		p.run()
		want, prompts := session.HandlingHanded, []string{"HOLD one", "three", "four", "two"}
		if mute {
			want, prompts = session.HandlingQueued, []string{"HOLD one", "three", "two", "four"}
		}
		require.Equal(t, want, p.receipt(steered).Handling)
		require.ErrorContains(t, edited.refused, "was handed to the running turn")
		require.Equal(t, prompts, p.w.prompts("s1"))
	}
}

// The message of an interrupt goes next, also before what the interrupted agent was sent and did
// not take; the latest of two goes first.
func TestSteeredAndNotTakenRunsBehindAnInterruptsMessage(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.forgets = true
	interrupt := func(id, text string) {
		p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &session.Message{ID: id, Text: text}})
	}
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() { p.steer("m3", "three") },
		func() { p.w.deaf = 1; interrupt("m4", "earlier"); interrupt("m5", "instead") },
	)
	p.run()
	require.Equal(t, []string{"HOLD one", "instead", "earlier", "three", "two"}, p.w.prompts("s1"))
}

// Messages that wait for their offers are offered in the order in which they came, also if an
// edit has swapped them, and that order is known: of an agent that is lost, what was offered before a message that its
// transcripts have counts as taken.
func TestSteeredAndMovedInBetween(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.slow = true
	var edited *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.steer("m2", "two") },
		func() { p.steer("m3", "three") },
		func() { p.steer("m4", "four") },
		func() {
			edited = p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m4", Place: ptr(0)})
			require.NoError(t, p.w.answerSteer())
		},
		func() { require.NoError(t, p.w.lose("s1")) },
		func() { p.letGo() },
	)
	p.run()
	require.NoError(t, edited.refused)
	require.Equal(t, []string{"m2", "m3", "m4"}, p.w.offers())
	require.Equal(t, p.w.offers(), p.w.turns[1].Steered)
}

// Messages are offered one after the other: what a transcript has of a later one shows that
// the agent took the earlier ones.
func TestSteeredInOrder(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.slow = true
	var second, third *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { second = p.steer("m2", "two") },
		func() { third = p.steer("m3", "three") },
		func() {
			require.Equal(t, []string{"m2"}, p.w.offers())
			require.NoError(t, p.w.answerSteer())
		},
		func() { p.letGo() },
	)
	p.run()
	require.Equal(t, []string{"m2", "m3"}, p.w.offers())
	require.Equal(t, session.HandlingHanded, p.receipt(second).Handling)
	require.Equal(t, session.HandlingHanded, p.receipt(third).Handling)
	require.Equal(t, []string{"HOLD one"}, p.w.prompts("s1"))
}

// Behind a message that the agent may not have, none is offered to the same turn.
func TestSteeredAndUnknown(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(p *play){
		"no answer":   func(p *play) { p.w.mute = false },
		"a lost host": func(p *play) { require.NoError(t, p.w.lose("s1")) },
		"the next run": func(p *play) {
			p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
			p.signal("nudge", "json/plain", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.w.forgets, p.w.mute = true, name == "no answer"
			p.then(func() { p.send("m1", "HOLD one") }, func() { p.steer("m2", "two") }, func() { lose(p) })
			if name == "the next run" {
				p = p.nextRun(p.runToContinue())
			}
			var third, fourth *answer
			p.then(func() { third = p.steer("m3", "three") }, func() { p.letGo() })
			p.then(func() { p.send("m4", "HOLD four") }, func() { fourth = p.steer("m5", "five") }, func() { p.letGo() })
			p.run()
			require.Equal(t, session.HandlingQueued, p.receipt(third).Handling)
			require.Equal(t, session.HandlingHanded, p.receipt(fourth).Handling, "the next turn is asked again")
			require.Equal(t, []string{"m2", "m5"}, p.w.offers())
		})
	}
}

// An interrupt that clears the queue also ends the messages that the agent was sent, with
// or without the turn.
func TestSteeredAndCleared(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		p := newPlay(t)
		p.w.forgets = forgets
		var reply *answer
		p.then(
			func() { p.send("m1", "HOLD one") },
			func() { p.send("m2", "two"); p.steer("m3", "three") },
			func() {
				reply = p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough", ClearQueue: true})
			},
		)
		p.run()
		require.Equal(t, []session.Message{{ID: "m2", Text: "two"}}, valueOf[session.InterruptReply](t, reply).Cancelled)
		require.Equal(t, []string{"HOLD one"}, p.w.prompts("s1"))
		for _, id := range []string{"m1", "m2", "m3"} {
			require.Equal(t, session.Interrupted, p.w.results("s1")[id].Outcome, id)
			require.Equal(t, "enough", p.w.results("s1")[id].Reason, id)
		}
		ends := 0
		for _, q := range heard[event.QueryInterrupted](p.w, "s1") {
			ends += len(q.MessageIDs)
		}
		require.Equal(t, 3, ends, "each ends once")
	}
}

// The same by signal.
func TestSteeringBySignal(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			p.signal(session.SignalMessage, "json/plain", `{"id": "m2", "text": "two", "whenBusy": "steer"}`)
		},
		func() { p.letGo() },
	)
	p.run()
	require.Equal(t, []string{"HOLD one"}, p.w.prompts("s1"))
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
}

// A run that makes way in the middle of a turn, and a lost host, carry the messages that
// the agent was sent.
func TestSteeredIsCarried(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.steer("m2", "two") },
		func() {
			p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
			p.send("m3", "three")
		},
	)
	next := p.nextRun(p.runToContinue())
	next.then(
		func() { require.NoError(t, next.w.lose("s1")) },
		func() { next.letGo() },
	)
	next.run()
	for _, turn := range next.w.turns[1:3] {
		require.Equal(t, "x1", turn.ExecutionID)
		require.Equal(t, []string{"m2"}, turn.Steered)
	}
	require.NotNil(t, next.w.turns[2].Resumes)
	require.Equal(t, "x1", next.w.results("s1")["m2"].ExecutionID)
	require.Equal(t, []string{"HOLD one", "HOLD one", "HOLD one", "three"}, next.w.prompts("s1"))
}

// A run that was reset takes over which messages an execution answered.
func TestSteeredIsCaughtUp(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.ahead = &contract.CatchUpOutput{Epoch: 5, LastSeq: 20, Executions: 2, Results: []session.Result{{
		ExecutionID: "x1", MessageID: "m1", Outcome: session.Completed, MessageIDs: []string{"m1", "m2"},
		Result: &event.QueryResult{Response: "both", CostUSD: ptr(0.5)},
	}}}
	p.then(
		func() { p.send("m1", "one"); p.send("m2", "two") },
		func() { p.send("m3", "three") },
	)
	var second session.Result
	var again *answer
	p.then(func() {
		second = queried[session.Result](p, session.QueryResult, "m2")
		again = p.send("m2", "two")
	})
	p.run()
	require.Equal(t, "both", second.Result.Response)
	require.Equal(t, "m2", p.receipt(again).MessageID)
	require.Equal(t, []string{"three"}, p.w.prompts("s1"))
	require.Equal(t, 2, p.w.finished[0].Record.Turns)
	require.InDelta(t, 0.75, *p.w.finished[0].Record.CostUSD, 1e-9, "it is paid once")
}

// A message that is cleared while it is offered to the turn does not run if the turn refuses
// it.
func TestClearedWhileItIsOffered(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.unsteered = 1
	p.w.refusing = func() {
		p.w.deaf = 1
		p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough", ClearQueue: true})
	}
	var steered *answer
	p.then(func() { p.send("m1", "HOLD one") }, func() { steered = p.steer("m2", "two") })
	p.after(time.Minute, func() {
		require.Equal(t, session.StatusIdle, p.snapshot().Status)
		require.Empty(t, p.snapshot().Queued)
	})
	p.run()
	require.Equal(t, session.HandlingQueued, p.receipt(steered).Handling)
	require.Equal(t, []string{"HOLD one"}, p.w.prompts("s1"))
	require.Equal(t, session.Interrupted, p.w.results("s1")["m2"].Outcome)
	require.Equal(t, "enough", p.w.results("s1")["m2"].Reason)
}
