package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// setBack makes a play's workflow find, at its next write, that the session's stream has
// more than it knows.
func (p *play) setBack(out contract.CatchUpOutput) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if sb := out.Sandbox; sb != nil {
		out.Epoch = sb.Epoch
	} else {
		p.w.epochs["s1"]++
		out.Epoch = p.w.epochs["s1"]
	}
	p.w.seqs["s1"] += 100
	out.LastSeq = p.w.seqs["s1"]
	p.w.ahead = &out
}

func answeredBefore(execution, message string) session.Result {
	return session.Result{ExecutionID: execution, MessageID: message, Outcome: session.Completed, Result: &event.QueryResult{Response: "said before", CostUSD: new(2.0)}}
}

// What was answered before a reset is not sent again: the first answer counts.
func TestAResetRunTakesOverAnAnswer(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var again *answer
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBack(contract.CatchUpOutput{
				Sandbox: p.snapshot().Sandbox, MinTurn: 5, Executions: 4, LastBlock: "said before",
				Results: []session.Result{answeredBefore("x1", "m1"), answeredBefore("x2", "m2"), answeredBefore("x3", "m3")},
			})
			p.send("m2", "two")
		},
		func() {
			i := p.inspect()
			require.Equal(t, 3, i.Turns, "m1 was settled once, m3 is of the run before")
			require.EqualValues(t, 0.25+2+2, *i.CostUSD)
			require.Nil(t, i.Failure)
			require.Equal(t, "said before", i.LastBlock)
		},
		func() { again = p.send("m3", "three") },
		func() { p.send("m4", "four") },
	)
	p.run()
	require.Equal(t, "x3", p.receipt(again).ExecutionID, "the message is known, though this run never had it")
	require.Equal(t, []string{"one", "four"}, p.w.prompts("s1"))
	require.Len(t, p.w.places, 1, "the live sandbox is kept")
	last := p.w.turns[len(p.w.turns)-1]
	require.Equal(t, "x5", last.ExecutionID, "no execution id is used twice")
	require.Greater(t, last.Turn, 5, "the turn's fence is above all that were taken")
	require.Greater(t, last.LastSeq, uint64(100))
}

// setBackInTheSecond has the stream know of two executions, of which the second runs.
func (p *play) setBackInTheSecond() {
	p.setBack(contract.CatchUpOutput{
		Sandbox: p.snapshot().Sandbox, MinTurn: 2, Executions: 2, Results: []session.Result{answeredBefore("x1", "m1")},
		Running: &contract.Running{ExecutionID: "x2", MessageID: "m2", AfterSeq: 7, Anchor: "block-x1"},
	})
}

// A running execution continues as the same one, from its start.
func TestAResetRunTakesOverATurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBackInTheSecond()
			p.send("m2", "two")
		},
	)
	p.run()
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
	last := p.w.turns[len(p.w.turns)-1]
	require.Equal(t, "x2", last.ExecutionID)
	require.EqualValues(t, 7, last.AfterSeq)
	require.Equal(t, "block-x1", last.Anchor)
	require.Greater(t, last.Turn, 2)
}

// An interrupt reaches the agent that is at work on the message also while the run does not
// know that yet: it can't end in the stream what the agent continues.
func TestAnInterruptReachesATurnThatIsTakenOver(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.catching = func() {
		p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough"})
	}
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBackInTheSecond()
			p.send("m2", "HOLD two")
		},
	)
	p.run()
	require.Equal(t, []string{"one", "HOLD two"}, p.w.prompts("s1"))
	last := p.w.turns[len(p.w.turns)-1]
	require.True(t, last.Continues, "the earlier run's attempt may be about to leave")
	require.EqualValues(t, 7, last.AfterSeq)
	require.NotNil(t, p.w.controls[len(p.w.controls)-1].Interrupt)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m2"].Outcome)
	for _, emit := range p.w.emits {
		require.NotContains(t, emit.Key, "interrupted")
	}
}

// So it is with a message that starts behind the catch-up.
func TestAMessageThatIsAtWorkStartsAsTheSameTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBackInTheSecond()
			p.signal(session.SignalQueue, "json/plain", `{"id": "m2", "text": "two"}`)
			p.update(session.UpdateConfigure, session.Configure{Title: ptr("new")})
		},
		func() { p.update(session.UpdateRender, session.RenderRequest{}) },
	)
	p.run()
	last := p.w.turns[len(p.w.turns)-1]
	require.Equal(t, "m2", last.Message.ID)
	require.True(t, last.Continues)
	require.EqualValues(t, 7, last.AfterSeq)
}

// A message that the reset leaves out, and that was being answered, fails with a typed error; its
// agent is given up.
func TestAResetRunFailsAMessageItNeverHad(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBack(contract.CatchUpOutput{
				Sandbox: p.snapshot().Sandbox, Executions: 2, Results: []session.Result{answeredBefore("x1", "m1")},
				Running: &contract.Running{ExecutionID: "x2", MessageID: "gone", AfterSeq: 7},
			})
			p.send("m3", "three")
		},
	)
	p.run()
	gone := p.w.results("s1")["gone"]
	require.Equal(t, session.Failed, gone.Outcome)
	require.Equal(t, session.TypeTerminated, gone.Error.Code)
	require.Equal(t, session.Completed, p.w.results("s1")["m3"].Outcome)
	require.Equal(t, []string{"one", "three"}, p.w.prompts("s1"))
	require.Len(t, p.w.places, 2, "the sandbox in which it ran is not used again")
}

// A reset run whose sandbox has ended makes another one.
func TestAResetRunWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBack(contract.CatchUpOutput{Executions: 1, Results: []session.Result{answeredBefore("x1", "m1")}})
			p.send("m2", "two")
		},
	)
	p.run()
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
	require.Len(t, p.w.places, 2)
	require.Greater(t, p.w.turns[1].Sandbox.Epoch, p.w.turns[0].Sandbox.Epoch)
	require.Equal(t, []contract.CatchUpInput{{
		SessionID: "s1", Agent: "claude", RunID: p.w.caughtUp[0].RunID, LastSeq: p.w.turns[0].LastSeq + 2, Anchor: "block-x1",
		Sandbox: &p.w.turns[0].Sandbox,
	}}, p.w.caughtUp)
}

// The agent that is given up may still write under its epoch: the next write takes a higher
// one, also when no sandbox is made.
func TestAResetRunFencesTheAgentItGivesUp(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.setBack(contract.CatchUpOutput{
				Sandbox: p.snapshot().Sandbox, Executions: 2, Results: []session.Result{answeredBefore("x1", "m1")},
				Running: &contract.Running{ExecutionID: "x2", MessageID: "gone", AfterSeq: 7},
			})
			p.update(session.UpdateConfigure, session.Configure{Title: ptr("new")})
		},
		func() {
			require.Contains(t, p.w.results("s1"), "gone")
			require.Greater(t, p.inspect().Epoch, p.w.turns[0].Sandbox.Epoch)
		},
	)
	p.run()
}
