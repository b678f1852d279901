package workflows

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

const threeWeeks = 3 * 7 * 24 * time.Hour

func (p *play) respond(id string, allow bool) *answer {
	return p.update(session.UpdateRespond, session.RespondRequest{RequestID: id, Allow: allow, Message: "so it is", By: "anna"})
}

// verdicts returns the outcome of a session's requests, and who decided.
func verdicts(w *world) map[string]string {
	out := map[string]string{}
	for _, p := range heard[event.PermissionResolved](w, "s1") {
		out[p.RequestID] += p.Decision + " by " + p.By
	}
	return out
}

// requireParked checks that a session waits without agent, sandbox, activity and timer.
func (p *play) requireParked(open ...string) {
	p.Helper()
	i := p.inspect()
	require.Equal(p, session.StatusWaiting, i.Status)
	require.Equal(p, "parked", i.Phase)
	require.Nil(p, i.Sandbox)
	require.Equal(p, open, i.Pending)
	require.NotNil(p, i.Parked)
	require.Equal(p, open, i.Parked.Open())
	require.JSONEq(p, `{"command":"make"}`, string(i.Parked.Requests[0].Input))
	require.NotZero(p, i.Parked.Since)
}

// TestR21AnsweredAfterWeeksInWorkflow: a request that is answered after three weeks
// continues the same execution on another host, once.
func TestR21AnsweredAfterWeeksInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "PARK 1 it") }, func() { p.send("m2", "two") })
	var first, again, unknown *answer
	p.then(func() {
		p.requireParked("r1-1")
		require.Len(t, p.w.ended, 1)
		require.Equal(t, "parked", p.w.ended[0].Reason)
		require.Equal(t, []string{"PARK 1 it"}, p.w.prompts("s1"), "later messages wait")
		p.w.hostOf["s1"] = "h2"
	}, func() { unknown = p.respond("r9", true) })
	history := 0
	p.then(func() { history = p.inspect().HistoryLength })
	p.after(threeWeeks, func() {
		p.requireParked("r1-1")
		require.Equal(t, history, p.inspect().HistoryLength, "to wait costs nothing")
		first = p.respond("r1-1", true)
		again = p.respond("r1-1", false)
	})
	p.then(func() {
		require.Equal(t, []string{"PARK 1 it", "PARK 1 it", "two"}, p.w.prompts("s1"))
		require.Nil(t, p.inspect().Parked)
		require.Equal(t, session.StatusIdle, p.inspect().Status)
		require.Less(t, p.inspect().Usage.InputTokens, int64(30))
	})
	out := p.run()
	require.Equal(t, 2, out.Turns)
	require.NoError(t, first.err)
	require.NoError(t, again.err, "the first answer counts")
	require.ErrorContains(t, unknown.err, "not open")
	require.Equal(t, map[string]string{"r1-1": "allow by anna"}, verdicts(p.w))
	require.Equal(t, session.Completed, p.w.results("s1")["m1"].Outcome)
	require.Len(t, heard[event.QueryCompleted](p.w, "s1"), 2)

	before, after := p.w.turns[0], p.w.turns[1]
	require.Equal(t, before.ExecutionID, after.ExecutionID)
	require.Equal(t, host, before.Sandbox.Host)
	require.Equal(t, "h2", after.Sandbox.Host)
	require.Equal(t, 1, after.Resumes.Parks)
	require.Equal(t, 1, after.Resumes.Times)
	require.Equal(t, host, after.Resumes.Host)
	require.LessOrEqual(t, after.Resumes.AfterSeq, before.LastSeq)
	d := after.Resumes.Parked.Decisions
	require.Len(t, d, 1)
	require.True(t, d[0].Allow)
	require.Equal(t, "anna", d[0].By)
	require.Less(t, after.Used.Work, time.Minute, "waiting is no work")
	require.Equal(t, int64(1+10+10), out.Usage.InputTokens, "what was used before counts")
}

// TestParkedRequestsAreAllAnsweredInWorkflow: a turn with several requests is resumed
// when the last is answered, by a signal too; it may be parked again.
func TestParkedRequestsAreAllAnsweredInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "PARK 2") },
		func() { p.respond("r1-2", false) },
		func() { p.requireParked("r1-1"); p.signal(session.SignalRespond, "json/plain", `"allow"`) },
		func() {
			p.requireParked("r2-1")
			p.update(session.UpdateRespond, session.RespondRequest{RequestID: "r2-1", Allow: true, Input: json.RawMessage(`{"command":"make test"}`)})
		},
		func() { require.Equal(t, session.StatusIdle, p.inspect().Status) },
	)
	p.run()
	require.Equal(t, map[string]string{"r1-1": "allow by user", "r1-2": "deny by anna", "r2-1": "allow by user"}, verdicts(p.w))
	require.Len(t, p.w.turns, 3)
	require.Equal(t, 2, p.w.turns[2].Resumes.Times)
	require.Equal(t, 2, p.w.turns[2].Resumes.Parks)
	require.JSONEq(t, `{"command":"make test"}`, string(p.w.turns[2].Resumes.Parked.Decisions[0].Given))
	require.Equal(t, "so it is", p.w.turns[1].Resumes.Parked.Decisions[0].Message)
}

// Without an answer, a parked turn ends in one of these ways: it has one end, and the
// activity that writes it withdraws its request.
func TestParkedAndEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*play){
		"interrupt": func(p *play) {
			p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "never mind"})
		},
		"close":  func(p *play) { p.update(session.UpdateClose) },
		"cancel": func(p *play) { p.env.CancelWorkflow() },
		"a message goes first": func(p *play) {
			p.update(session.UpdateSend, session.Message{ID: "m2", Text: "two", WhenBusy: session.BusyInterrupt})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.send("m1", "PARK 1") }, func() { p.requireParked("r1-1"); end(p) })
			if name == "close" || name == "cancel" {
				p.runOpen()
			} else {
				p.then(func() { require.Equal(t, session.StatusIdle, p.inspect().Status) })
				p.run()
			}
			require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
			require.Len(t, heard[event.QueryInterrupted](p.w, "s1"), 1)
			require.Empty(t, verdicts(p.w))
			ends := slices.DeleteFunc(slices.Clone(p.w.emits), func(in contract.EmitInput) bool { return in.Abort == nil })
			require.Len(t, ends, 1, "its agent may have taken other messages")
			require.Equal(t, []string{"r1-1"}, ends[0].Abort.Parked.Open())
			require.Len(t, p.w.ended, map[bool]int{true: 2, false: 1}[name == "a message goes first"], "no sandbox is made to end a turn")
		})
	}
}

// Operations on a session whose turn is parked.
func TestParkedAndUsed(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var rejected, evicted *answer
	p.then(
		func() { p.send("m1", "PARK 1") },
		func() {
			rejected = p.update(session.UpdateSend, session.Message{ID: "m2", Text: "two", WhenBusy: session.BusyReject})
			p.update(session.UpdateConfigure, session.Configure{Title: ptr("another")})
			evicted = p.update(session.UpdateEvict)
			p.send("m3", "three")
		},
		func() { p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Cancel: true}) },
		func() {
			p.requireParked("r1-1")
			require.Equal(t, session.Interrupted, p.w.results("s1")["m3"].Outcome, "its end is streamed, though nothing runs")
			require.Len(t, heard[event.OptionsUpdate](p.w, "s1"), 1)
			left := queried[contract.FinalState](p, session.QueryFinalState)
			require.Equal(t, "m1", left.Running.MessageID, "terminated now, its message fails by name")
			require.Nil(t, left.Sandbox)
			require.Equal(t, 1, left.Lost.Parks)
		},
	)
	p.run()
	require.ErrorIs(t, session.FromTemporal(rejected.refused), session.ErrBusy)
	require.NoError(t, evicted.refused, "there is no sandbox to give up")
}

// The deadline answers while the turn is parked, counted from the request.
func TestParkedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) {
		in.Options.PermissionDeadline = permission.Deadline{AfterMS: (48 * time.Hour).Milliseconds()}
	})
	p.then(func() { p.send("m1", "PARK 1") })
	p.after(47*time.Hour, func() { p.requireParked("r1-1") })
	p.after(time.Hour+time.Second, func() { require.Equal(t, session.StatusIdle, p.inspect().Status) })
	p.run()
	require.Equal(t, map[string]string{"r1-1": "deny by deadline"}, verdicts(p.w))
	require.Equal(t, "Nobody answered within 48h0m0s.", p.w.turns[1].Resumes.Parked.Decisions[0].Message)
}

// A parked turn is carried into the next run with its requests and answers.
func TestParkedIntoTheNextRun(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "PARK 2") },
		func() { p.respond("r1-1", true) },
		func() { p.with(func() { p.env.SetCurrentHistorySize(makeWayBytes + 1) }); p.signalText("m2", "two") },
	)
	in := p.runToContinue()
	require.Equal(t, []string{"r1-2"}, in.Carried.UnderWay.Lost.Parked.Open())
	next := p.nextRun(in)
	next.then(
		func() { next.requireParked("r1-2"); next.respond("r1-2", false) },
		func() { next.requireParked("r2-1"); next.respond("r2-1", true) },
		func() { require.Equal(t, session.StatusIdle, next.inspect().Status) },
	)
	require.Equal(t, 2, next.run().Turns)
	require.Equal(t, []string{"PARK 2", "PARK 2", "PARK 2", "two"}, p.w.prompts("s1"))
	require.Len(t, p.w.turns[1].Resumes.Parked.Decisions, 2)
	require.Equal(t, []int{3, 6}, []int{p.w.turns[1].Resumes.Ticks, p.w.turns[2].Resumes.Ticks}, "calls that count for maxTicks")
	require.Equal(t, map[string]string{"r1-1": "allow by anna", "r1-2": "deny by anna", "r2-1": "allow by anna"}, verdicts(p.w))
	require.Equal(t, session.Completed, p.w.results("s1")["m1"].Outcome)
}

// If the host is lost while its sandbox is given up, nothing is lost that the stream has;
// if it is lost while it gets the answer, the next host gets the answer.
func TestParkedAndTheHostLost(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.lostHosts = true
	p.then(
		func() { p.send("m1", "PARK 1") },
		func() { p.requireParked("r1-1"); p.w.lostHosts = false; p.respond("r1-1", true) },
		func() { require.Equal(t, session.StatusIdle, p.inspect().Status) },
	)
	p.run()
	require.Equal(t, session.Completed, p.w.results("s1")["m1"].Outcome)
	require.Len(t, p.w.turns[1].Resumes.Parked.Decisions, 1)
}
