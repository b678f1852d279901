package workflows

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// runToContinue plays until the run makes way for the next one and returns that one's
// input.
func (p *play) runToContinue() session.Input {
	p.Helper()
	p.env.SetDetachedChildWait(false)
	p.env.ExecuteWorkflow(session.WorkflowType, p.in)
	require.True(p, p.env.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(p, p.env.GetWorkflowError(), &next)
	return carried(p.T, next)
}

func carried(t *testing.T, next *workflow.ContinueAsNewError) session.Input {
	t.Helper()
	require.Equal(t, session.WorkflowType, next.WorkflowType.Name)
	var in session.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	return in
}

// nextRun continues from what the previous run carried. Activities of a run that made way
// may still be running.
func (p *play) nextRun(in session.Input) *play {
	return playOn(p.T, p.w, in)
}

// wish makes the server suggest a new run in the same task that delivers what the step
// sends next.
func (p *play) wish() { p.with(func() { p.env.SetContinueAsNewSuggested(true) }) }

// with runs f right before what the step sends next is delivered.
func (p *play) with(f func()) { p.env.RegisterDelayedCallback(f, 0) }

func TestContinueAtTheServersWish(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one") }, func() { p.wish(); p.send("m2", "two") })
	in := p.runToContinue()
	require.Equal(t, "s1", in.SessionID)
	require.Equal(t, start, in.CreatedAt)
	require.Len(t, in.Carried.Receipts, 2)
	require.Len(t, in.Carried.Queue, 1)
	require.Equal(t, "m2", in.Carried.Queue[0].Message.ID)
	next := p.nextRun(in)
	next.then(func() { next.send("m3", "three") })
	out := next.run()
	require.Equal(t, 3, out.Turns)
	require.Equal(t, []string{"one", "two", "three"}, p.w.prompts("s1"))
	require.Len(t, p.w.begun, 1, "the session starts once")
	require.Len(t, p.w.places, 1, "the sandbox is carried")
}

func TestContinueAtItsOwnLimit(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.env.SetCurrentHistoryLength(continueAt); p.send("m1", "one") }, func() {
		p.with(func() { p.env.SetCurrentHistoryLength(continueAt + 1) })
		p.send("m2", "two")
	})
	require.Len(t, p.runToContinue().Carried.Receipts, 2)
}

// A turn that receives more than a history may hold makes way in its middle: its agent is
// not prompted again, and the queue is carried.
func TestContinueInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 100
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "enough"}) },
		func() { p.signal(session.SignalMessage, "json/plain", `{"text": 5}`) },
		func() {
			p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) })
			p.signalText("m2", "two")
		},
	)
	in := p.runToContinue()
	require.Equal(t, "m1", in.Carried.UnderWay.Message.ID)
	require.True(t, in.Carried.UnderWay.Interrupted)
	require.Len(t, in.Carried.Queue, 1)
	require.Len(t, in.Carried.Notices, 1, "unwritten notices are carried")

	p.w.mu.Lock()
	p.w.deaf = 0
	delete(p.w.running, "s1") // the attempt learns that its run has ended
	p.w.mu.Unlock()
	next := p.nextRun(in)
	next.then(func() {})
	out := next.run()
	require.Equal(t, 2, out.Turns)
	require.Len(t, refusals(p.w), 1)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	first, again := p.w.turns[0], p.w.turns[1]
	require.Equal(t, first.ExecutionID, again.ExecutionID)
	require.Greater(t, again.Turn, first.Turn, "its attempts have higher fences than the previous run's")
	require.True(t, again.Continues)
	require.Equal(t, first.Anchor, again.Anchor)
	require.LessOrEqual(t, again.AfterSeq, first.LastSeq)
	require.Len(t, p.w.places, 1, "the sandbox is carried")
	require.Equal(t, []string{"HOLD one", "HOLD one", "two"}, p.w.prompts("s1"))
}

// A session that is never idle must continue as new between two turns, not
// when its queue is empty.
func TestContinueWithAFullQueue(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two"); p.send("m3", "three") },
		func() { p.wish(); require.NoError(t, p.w.letGo("s1")) },
	)
	in := p.runToContinue()
	require.Len(t, in.Carried.Queue, 2)
	require.Equal(t, 3, p.nextRun(in).run().Turns)
	require.Equal(t, []string{"HOLD one", "two", "three"}, p.w.prompts("s1"))
}

// What arrives in the very task in which the run ends is carried.
func TestASignalWithTheContinueIsNotLost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{session.SignalMessage, session.SignalQueue} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.send("m1", "one") }, func() {
				p.wish()
				p.env.SignalWorkflow(name, session.Message{ID: "m2", Text: "two"})
			})
			in := p.runToContinue()
			require.Len(t, in.Carried.Queue, 1)
			require.Equal(t, "m2", in.Carried.Queue[0].Message.ID)
			require.Equal(t, name == session.SignalQueue, in.Carried.Queue[0].Hold)
		})
	}
}

// Unwritten events don't hold the run up: the next one writes them, once.
func TestABadSignalWithTheContinueIsAnswered(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one") }, func() {
		p.wish()
		p.signal(session.SignalMessage, "json/plain", `{"text": 5}`)
	})
	in := p.runToContinue()
	require.Empty(t, in.Carried.Queue)
	require.Len(t, in.Carried.Notices, 1)
	p.nextRun(in).run()
	require.Len(t, refusals(p.w), 1)
}

// A request to close or cancel is not carried: it is fulfilled first. One to evict is
// carried: archiving a sandbox may take long.
func TestEndingGoesBeforeContinuing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*play){
		"close":  func(p *play) { p.update(session.UpdateClose) },
		"cancel": func(p *play) { p.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.send("m1", "one") }, func() { p.wish(); end(p) })
			require.Equal(t, 1, p.runOpen().Turns)
			require.Len(t, p.w.finished, 1)
		})
	}
	t.Run("evict", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t)
		p.then(func() { p.send("m1", "one") }, func() {
			p.wish()
			p.update(session.UpdateEvict)
		})
		in := p.runToContinue()
		require.Empty(t, p.w.ended)
		next := p.nextRun(in)
		next.then(func() { require.Nil(t, next.snapshot().Sandbox) })
		next.run()
		require.Len(t, p.w.ended, 1)
	})
}

// An update whose handler waits is answered before the run ends.
func TestAnUpdateInFlightIsFinishedFirst(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 1
	var got *answer
	p.then(func() { p.send("m1", "HOLD one") }, func() {
		p.wish()
		got = p.update(session.UpdateRespond, session.RespondRequest{RequestID: "r1", Allow: true})
		require.NoError(t, p.w.letGo("s1"))
	})
	in := p.runToContinue()
	require.True(t, got.done)
	require.Error(t, got.err, "the request is not open any more")
	require.Equal(t, 1, in.Carried.Turns)
}

// TestStartFromCarriedState starts the workflow from every kind of state that a run can
// carry; it continues and closes.
func TestStartFromCarriedState(t *testing.T) {
	t.Parallel()
	queued := func(hold bool) []session.Queued {
		return []session.Queued{{Message: session.Message{ID: "old", Text: "carried"}, ExecutionID: "x1", Hold: hold}}
	}
	receipt := session.Receipt{SessionID: "s1", MessageID: "old", ExecutionID: "x1", AfterSeq: 3}
	for name, c := range map[string]struct {
		state   session.State
		prompts []string
		sandbox bool
	}{
		"idle":         {session.State{}, []string{"new"}, false},
		"with queue":   {session.State{Queue: queued(false), Receipts: []session.Receipt{receipt}, Executions: 1}, []string{"carried", "new"}, false},
		"with holds":   {session.State{Queue: queued(true), Receipts: []session.Receipt{receipt}, Executions: 1}, []string{"carried", "new"}, false},
		"with sandbox": {session.State{Sandbox: &session.Sandbox{Host: host, ID: "s1-e1", Epoch: 1, Status: "ready"}}, []string{"new"}, true},
		"with receipts": {
			session.State{Receipts: []session.Receipt{{SessionID: "s1", MessageID: "new", ExecutionID: "x7", AfterSeq: 3}}, Executions: 7},
			[]string{}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, func(in *session.Input) {
				c.state.IdleTimeoutMS, c.state.Native, c.state.Epoch, c.state.Turns = time.Minute.Milliseconds(), 1, 1, 41
				in.Carried = &c.state
			})
			p.w.epochs["s1"] = 1
			p.then(func() { p.send("new", "new") })
			out := p.run()
			require.Equal(t, c.prompts, p.w.prompts("s1"))
			require.Equal(t, 41+len(c.prompts), out.Turns)
			require.Empty(t, p.w.begun)
			if c.sandbox {
				require.Empty(t, p.w.places)
				require.Equal(t, "s1-e1", p.w.turns[0].Sandbox.ID)
			}
		})
	}
}

// TestContinuingChangesNothing plays long random conversations in one run and in many, and
// requires the same answers.
func TestContinuingChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			talk := conversation(seed, 40)
			whole, runs := hold(t, talk, 0)
			require.Equal(t, 1, runs)
			parts, runs := hold(t, talk, 3)
			require.Greater(t, runs, 5)
			require.Equal(t, whole.results("s1"), parts.results("s1"))
			require.Equal(t, whole.prompts("s1"), parts.prompts("s1"))
			require.Equal(t, whole.finished[0].Record.Turns, parts.finished[0].Record.Turns)
			require.Equal(t, whole.finished[0].Record.Usage, parts.finished[0].Record.Usage)
			require.Equal(t, whole.finished[0].Record.Options, parts.finished[0].Record.Options)
		})
	}
}

// line is one step on a session.
type line func(*play)

func conversation(seed uint64, n int) []line {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var talk []line
	for i := range n {
		m := session.Message{ID: fmt.Sprintf("m%d", i), Text: fmt.Sprintf("text %d", i)}
		switch rnd.IntN(8) {
		case 0:
			talk = append(talk, func(p *play) { p.env.SignalWorkflow(session.SignalQueue, m) })
		case 1:
			talk = append(talk, func(p *play) { p.env.SignalWorkflow(session.SignalMessage, m) })
		case 2:
			m.Text = "FAIL " + m.Text
			talk = append(talk, func(p *play) { p.update(session.UpdateSend, m) })
		case 3:
			title := fmt.Sprintf("title %d", i)
			talk = append(talk, func(p *play) { p.update(session.UpdateConfigure, session.Configure{Title: &title}) })
		case 4:
			again := func(p *play) { p.update(session.UpdateSend, m) }
			talk = append(talk, again, again)
		case 5:
			talk = append(talk, func(p *play) { p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &m}) })
		case 6:
			talk = append(talk, func(p *play) { p.update(session.UpdateRender, session.RenderRequest{}) })
		default:
			talk = append(talk, func(p *play) { p.update(session.UpdateSend, m) })
		}
	}
	return talk
}

// hold plays a conversation; every few lines the server suggests a new run.
func hold(t *testing.T, talk []line, every int) (*world, int) {
	t.Helper()
	w, in := newWorld(), session.Input{SessionID: "s1", Options: session.Options{Agent: "claude"}, CreatedAt: start}
	next, runs := 0, 0
	for {
		runs++
		p := playOn(t, w, in)
		for i := range len(talk) - next {
			p.then(func() {
				line := talk[next]
				p.with(func() {
					next++
					p.env.SetContinueAsNewSuggested(every > 0 && i >= every)
				})
				line(p)
			})
		}
		p.then(func() { p.update(session.UpdateClose) })
		p.env.ExecuteWorkflow(session.WorkflowType, p.in)
		require.True(t, p.env.IsWorkflowCompleted())
		err := p.env.GetWorkflowError()
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			require.NoError(t, err)
			return w, runs
		}
		in = carried(t, again)
	}
}
