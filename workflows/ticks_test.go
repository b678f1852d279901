package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// A message may take as many model calls as the session or the message itself allows. They
// are counted and limited: each answer takes two.
func TestR31ExecutionAndTicksInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.MaxTicks = 7 })
	p.then(
		func() { require.Nil(t, p.snapshot().TickCount, "unknown, not 0") },
		func() { p.send("m1", "one") },
		func() { p.update(session.UpdateSend, session.Message{ID: "m2", Text: "two", MaxTicks: 3}) },
		func() {
			require.Equal(t, 4, *p.snapshot().TickCount)
			p.update(session.UpdateConfigure, session.Configure{MaxTicks: ptr(0), Limits: &limits.Change{ModelCalls: ptr(4)}})
		},
		func() { p.send("m3", "three") },
		func() {
			require.Equal(t, "the limit of 4 model calls is reached", p.inspect().WaitsFor)
			p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{ModelCalls: ptr(5)}})
		},
	)
	var bad *answer
	p.then(func() {
		bad = p.update(session.UpdateSend, session.Message{ID: "m4", Text: "four", MaxTicks: -1})
	})
	p.run()
	var bounds, used []int
	for _, in := range p.w.turns {
		bounds, used = append(bounds, in.MaxTicks), append(used, in.Used.Calls)
	}
	require.Equal(t, []int{7, 3, 0}, bounds)
	require.Equal(t, []int{0, 2, 4}, used)
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(bad.refused), &invalid)
	require.Equal(t, "message.maxTicks", invalid.Field)
}

// An execution is found by its id or its message's. An interrupt that names one is refused
// for any other.
func TestR21HandleExtrasInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var first *answer
	var refused, taken *answer
	p.then(
		func() { first = p.send("m1", "HOLD one") },
		func() { p.send("m2", "HOLD two") },
		func() {
			receipt := p.receipt(first)
			require.Equal(t, receipt, queried[session.Receipt](p, session.QueryReceipt, "m1"))
			require.Equal(t, receipt, queried[session.Receipt](p, session.QueryReceipt, "x1"))
			refused = p.update(session.UpdateInterrupt, session.InterruptRequest{ExecutionID: "x2"})
			require.Equal(t, "x1", p.inspect().CurrentExecution)
			taken = p.update(session.UpdateInterrupt, session.InterruptRequest{ExecutionID: "x1", Reason: "enough"})
		},
		func() {
			require.Equal(t, "enough", queried[session.Result](p, session.QueryResult, "x1").Reason)
			require.Equal(t, "x2", p.inspect().CurrentExecution)
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	p.run()
	require.NoError(t, taken.refused)
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(refused.refused), &invalid)
	require.Equal(t, "executionId", invalid.Field)
}
