package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestBusyPolicies(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	busy := func(id string, policy session.BusyPolicy) *answer {
		return p.update(session.UpdateSend, session.Message{ID: id, Text: "text " + id, WhenBusy: policy})
	}
	var rejected, idle *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { busy("queue", session.BusyQueue) },
		func() { rejected = busy("reject", session.BusyReject) },
		func() { busy("interrupt", session.BusyInterrupt) },
		func() { idle = busy("idle", session.BusyReject) },
	)
	p.run()
	require.Error(t, rejected.refused)
	require.ErrorIs(t, session.FromTemporal(rejected.refused), session.ErrBusy)
	require.False(t, rejected.accepted, "a refused message leaves nothing in history")
	p.receipt(idle)
	require.Equal(t, []string{"HOLD one", "text interrupt", "text queue", "text idle"}, p.w.prompts("s1"))
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.NotContains(t, p.w.results("s1"), "reject")
}

// TestR26InterruptInWorkflow: abort the current execution, optionally queue a
// message, which goes next.
func TestR26InterruptInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var got *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() {
			next := session.Message{ID: "next", Text: "instead"}
			got = p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "changed my mind", Message: &next})
		},
	)
	p.run()
	reply := valueOf[session.InterruptReply](t, got)
	require.True(t, reply.Running)
	require.Equal(t, "next", reply.Receipt.MessageID)
	require.Equal(t, []string{"HOLD one", "instead", "two"}, p.w.prompts("s1"))
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Equal(t, "changed my mind", p.w.results("s1")["m1"].Reason)
}

// TestR26InterruptWhenIdleOnlyQueuesInWorkflow: when idle only queues.
func TestR26InterruptWhenIdleOnlyQueuesInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var nothing, queued *answer
	p.then(
		func() { nothing = p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "why not"}) },
		func() {
			queued = p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &session.Message{ID: "m1", Text: "one"}})
		},
	)
	p.after(time.Hour, func() {
		require.Empty(t, p.w.turns)
		require.Len(t, p.snapshot().Queued, 1)
		require.False(t, p.snapshot().Aborted)
		p.update(session.UpdateRender, session.RenderRequest{})
	})
	p.run()
	require.Equal(t, session.InterruptReply{}, valueOf[session.InterruptReply](t, nothing))
	require.False(t, valueOf[session.InterruptReply](t, queued).Running)
	require.Equal(t, []string{"one"}, p.w.prompts("s1"))
}

// A repeated interrupt must not stop the message that it sent itself.
func TestARepeatedInterruptSparesItsOwnMessage(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	req := session.InterruptRequest{Message: &session.Message{ID: "m2", Text: "HOLD two"}}
	var first, again *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { first = p.update(session.UpdateInterrupt, req) },
		func() { again = p.update(session.UpdateInterrupt, req) },
		func() { require.NoError(t, p.w.letGo("s1")) },
	)
	p.run()
	require.Equal(t, valueOf[session.InterruptReply](t, first).Receipt, valueOf[session.InterruptReply](t, again).Receipt)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
}

// An interrupt while the sandbox is being made ends the execution without the agent, and
// does not wait for a slot. The conversation has the message nevertheless.
func TestInterruptWhileTheSandboxIsMade(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.crowded = true
	p.then(
		func() { p.send("m1", "one") },
		func() { require.Equal(t, "waiting for a sandbox", p.inspect().Phase) },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{Reason: "too slow"}) },
		func() {
			require.Equal(t, session.StatusIdle, p.snapshot().Status)
			require.Equal(t, "too slow", p.w.results("s1")["m1"].Reason)
		},
		func() { p.w.crowded = false; p.send("m2", "two") },
	)
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Equal(t, []string{"two"}, p.w.prompts("s1"))
	require.Equal(t, []event.BlockUpsert{event.MessageBlock("m1", "one", nil)}, heard[event.BlockUpsert](p.w, "s1"))
}

// A sandbox that was made nevertheless is kept for the next message.
func TestInterruptedTurnKeepsItsSandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{}) },
		func() { p.send("m2", "two") },
	)
	p.run()
	require.Len(t, p.w.places, 1)
	require.Equal(t, session.Completed, p.w.results("s1")["m2"].Outcome)
}

// An interrupt that the turn does not take is sent again.
func TestAnInterruptIsOfferedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 4
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{}) },
	)
	p.after(time.Minute, func() {})
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	ids := map[string]bool{}
	for _, c := range p.w.controls {
		ids[c.ID] = true
	}
	require.Len(t, p.w.controls, 5)
	require.Len(t, ids, 1, "one id, so that the agent gets it once")
}

// TestR27ClearAbortInWorkflow: resets isAborted only.
func TestR27ClearAbortInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var before, after session.Snapshot
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{}) },
		func() { before = p.snapshot(); p.update(session.UpdateClearAbort) },
		func() { after = p.snapshot() },
	)
	p.run()
	require.True(t, before.Aborted)
	require.False(t, after.Aborted)
	before.Aborted, before.Timestamp, after.Timestamp = false, time.Time{}, time.Time{}
	require.Equal(t, before, after)
}

func TestRespondReachesTheTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	answer1 := session.RespondRequest{RequestID: "r1", Message: "not this"}
	var idle, empty, good, unknown *answer
	p.then(
		func() { idle = p.update(session.UpdateRespond, answer1) },
		func() { p.send("m1", "HOLD one") },
		func() { empty = p.update(session.UpdateRespond, session.RespondRequest{}) },
		func() { p.w.deaf = 2; good = p.update(session.UpdateRespond, answer1) },
		func() { unknown = p.update(session.UpdateRespond, session.RespondRequest{RequestID: "unknown"}) },
		func() { require.NoError(t, p.w.letGo("s1")) },
	)
	p.run()
	for _, bad := range []error{idle.refused, empty.refused, unknown.err} {
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(bad), &invalid)
		require.Equal(t, "requestId", invalid.Field)
	}
	require.NoError(t, good.err)
	require.Len(t, p.w.controls, 4, "it is sent until the turn takes it")
	for _, c := range p.w.controls[:3] {
		require.Equal(t, &answer1, c.Answer)
		require.Equal(t, p.w.controls[0].ID, c.ID, "the agent gets it once")
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.Metadata = bag("stays", `1`) })
	var got *answer
	p.then(
		func() {
			got = p.update(session.UpdateConfigure, session.Configure{
				Title: ptr("new title"), Metadata: bag("user", `{"id": 7}`), Tags: []string{"a", "b"}, IdleTimeoutMS: ptr(int64(60_000)),
			})
		},
		func() { p.update(session.UpdateConfigure, session.Configure{Metadata: bag("stays", `null`)}) },
	)
	p.run()
	require.Equal(t, "new title", valueOf[session.Snapshot](t, got).Title)
	opts := p.w.finished[0].Record.Options
	require.Equal(t, "new title", opts.Title)
	require.Equal(t, []string{"a", "b"}, opts.Tags)
	require.Equal(t, int64(60_000), opts.IdleTimeoutMS)
	require.Len(t, opts.Metadata, 1)
	require.JSONEq(t, `{"id": 7}`, string(opts.Metadata["user"]))
	updates := heard[event.OptionsUpdate](p.w, "s1")
	require.Len(t, updates, 2)
	require.Equal(t, "new title", *updates[0].Title)
}

func TestConfigureTellsTheLiveAgent(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf = 2
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateConfigure, session.Configure{Model: ptr("opus")}) },
	)
	p.after(time.Minute, func() { require.NoError(t, p.w.letGo("s1")) })
	p.then(func() { p.send("m2", "two") })
	p.run()
	require.Len(t, p.w.controls, 3, "sent until it is taken")
	require.Equal(t, &contract.Options{Model: "opus"}, p.w.controls[2].Options)
	require.Equal(t, "opus", p.w.turns[1].Agent.Model)
	require.Len(t, heard[event.OptionsUpdate](p.w, "s1"), 1)
}

// The metadata is carried from run to run: many small changes must not make it grow beyond
// the limit of one big one.
func TestTheMetadataBagIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	big := `"` + strings.Repeat("x", 40<<10) + `"`
	var first, second *answer
	p.then(
		func() { first = p.update(session.UpdateConfigure, session.Configure{Metadata: bag("a", big)}) },
		func() { second = p.update(session.UpdateConfigure, session.Configure{Metadata: bag("b", big)}) },
	)
	p.run()
	require.NoError(t, first.refused)
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(second.refused), &invalid)
	require.Equal(t, "metadata", invalid.Field)
}
