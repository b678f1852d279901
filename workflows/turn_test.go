package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestOneTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var got *answer
	p.then(func() { got = p.send("m1", "hello there") })
	out := p.run()

	rec := p.receipt(got)
	require.Equal(t, session.Receipt{
		SessionID: "s1", MessageID: "m1", ExecutionID: "x1", AfterSeq: 1, Digest: session.Message{Text: "hello there"}.Digest(),
	}, rec)
	require.Equal(t, 1, out.Turns)
	require.Equal(t, event.Usage{InputTokens: 10, OutputTokens: 5}, out.Usage)
	require.InDelta(t, 0.25, *out.CostUSD, 1e-9)
	require.Equal(t, "echo: hello there", out.Last.Response)
	require.Nil(t, out.Failure)
	require.Len(t, p.w.turns, 1)
	in := p.w.turns[0]
	require.Equal(t, contract.Agent{SessionID: "s1", Name: "claude", Native: 1}, in.Agent)
	require.Equal(t, session.Sandbox{Host: host, ID: "s1-e2", Epoch: 2, Status: "ready"}, in.Sandbox)
	require.Equal(t, "x1", in.ExecutionID)
}

func TestActivitiesRunOnTheirQueues(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.update(session.UpdateConfigure, session.Configure{Title: ptr("before")}) },
		func() { p.send("m1", "HOLD on") },
		func() { p.update(session.UpdateInterrupt, session.InterruptRequest{}) },
	)
	p.run()
	require.Equal(t, map[string]string{
		contract.ActivityBegin: session.TaskQueue, contract.ActivityEmit: session.TaskQueue, contract.ActivityFinish: session.TaskQueue,
		contract.ActivityCreateSandbox: session.CreateQueue,
		contract.ActivityRunTurn:       session.HostQueue(host),
		contract.ActivitySendControl:   session.ControlQueue(host), contract.ActivityEndSandbox: session.ControlQueue(host),
	}, p.w.queues)
}

func TestNoSandboxBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() {
		require.Nil(t, p.snapshot().Sandbox)
		require.Equal(t, session.StatusIdle, p.snapshot().Status)
	})
	p.run()
	require.Empty(t, p.w.places)
	require.Empty(t, p.w.ended)
	require.Len(t, p.w.finished, 1)
}

func TestQueuedMessagesRunInOrder(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m0", "HOLD first") },
		func() {
			for i := range 5 {
				p.send(fmt.Sprintf("m%d", i+1), fmt.Sprintf("text %d", i+1))
			}
		},
		func() {
			require.Len(t, p.snapshot().Queued, 5)
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	p.run()
	require.Equal(t, []string{"HOLD first", "text 1", "text 2", "text 3", "text 4", "text 5"}, p.w.prompts("s1"))
	require.Len(t, p.w.places, 1, "one sandbox serves them all")
}

// TestR23QueueInWorkflow: append without triggering execution; returns void;
// visible in queuedMessages.
func TestR23QueueInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "q1", Text: "one"}) },
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "q2", Text: "two"}) },
	)
	p.after(time.Hour, func() {
		require.Empty(t, p.w.turns)
		require.Equal(t, []session.Message{{ID: "q1", Text: "one"}, {ID: "q2", Text: "two"}}, p.snapshot().Queued)
		p.send("m", "three")
	})
	p.run()
	require.Equal(t, []string{"one", "two", "three"}, p.w.prompts("s1"))
}

func TestRenderRunsWhatIsQueued(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var got *answer
	p.then(
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "q1", Text: "one"}) },
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "q2", Text: "two"}) },
		func() { got = p.update(session.UpdateRender, session.RenderRequest{}) },
	)
	p.run()
	reply := valueOf[session.RenderReply](t, got)
	require.False(t, reply.Changed)
	require.Len(t, reply.Receipts, 2)
	require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
	require.Equal(t, "q2", reply.Receipts[1].MessageID)
	require.Equal(t, "x2", reply.Receipts[1].ExecutionID)
}

func TestR22RenderOfNothingInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) {
		in.Options.Title = "same"
		in.Options.Tags = []string{"a"}
		in.Options.Metadata = bag("k", `{"a": 1}`)
	})
	same := session.Configure{Title: ptr("same"), Tags: []string{"a"}, Metadata: bag("k", `{"a":1}`)}
	var empty, unchanged, changed *answer
	p.then(
		func() { empty = p.update(session.UpdateRender, session.RenderRequest{}) },
		func() { unchanged = p.update(session.UpdateRender, session.RenderRequest{Options: same}) },
		func() {
			changed = p.update(session.UpdateRender, session.RenderRequest{Options: session.Configure{Model: ptr("opus")}})
		},
	)
	p.run()
	require.Equal(t, session.RenderReply{Receipts: []session.Receipt{}}, valueOf[session.RenderReply](t, empty))
	require.Equal(t, session.RenderReply{Receipts: []session.Receipt{}}, valueOf[session.RenderReply](t, unchanged))
	rendered := valueOf[session.RenderReply](t, changed)
	require.True(t, rendered.Changed)
	require.Len(t, rendered.Receipts, 1)
	require.Equal(t, []string{session.RenderText}, p.w.prompts("s1"), "what did not change runs nothing")
	require.Len(t, heard[event.OptionsUpdate](p.w, "s1"), 1, "unchanged options are not reported")
}

func TestARepeatedMessageGivesTheFirstReceipt(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var first, again *answer
	p.then(
		func() { first = p.send("m1", "once") },
		func() { again = p.send("m1", "once") },
		func() { p.signalText("m1", "once") },
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "m1", Text: "once"}) },
	)
	out := p.run()
	require.Equal(t, p.receipt(first), p.receipt(again))
	require.Equal(t, []string{"once"}, p.w.prompts("s1"))
	require.Equal(t, 1, out.Turns)
}

func TestAMessageWithoutAnIDGetsOne(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.First = &session.Message{Text: "first"} })
	p.then(func() { p.send("", "sent") }, func() { p.signalText("", "signalled") })
	p.run()
	ids := map[string]bool{}
	for _, turn := range p.w.turns {
		require.NoError(t, session.ValidateID("id", turn.Message.ID))
		ids[turn.Message.ID] = true
	}
	require.Len(t, ids, 3)
}

func TestAFailedTurnIsRecordedInTheConversation(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "FAIL please") }, func() {
		require.Equal(t, "the agent said no", p.inspect().Failure.Message)
		p.send("m2", "go on")
	}, func() { require.Nil(t, p.inspect().Failure) })
	out := p.run()
	require.Nil(t, out.Failure)
	res := p.w.results("s1")
	require.Equal(t, session.Failed, res["m1"].Outcome)
	require.Equal(t, &event.ErrorInfo{Message: "the agent said no", Code: session.TypeAgentFailed}, res["m1"].Error)
	require.Equal(t, session.Completed, res["m2"].Outcome)
	blocks := heard[event.BlockUpsert](p.w, "s1")
	require.Len(t, blocks, 1)
	require.Equal(t, event.BlockError, blocks[0].Block.Type)
	require.Equal(t, event.SourceServer, blocks[0].Block.Source)
	require.Equal(t, "the agent said no", *blocks[0].Block.Message)
}

// A failure in a session's new incarnation must not be taken for one in an earlier one.
func TestFailuresOfTwoLivesAreTwo(t *testing.T) {
	t.Parallel()
	w, in := newWorld(), session.Input{SessionID: "s1", Options: session.Options{Agent: "claude"}}
	for _, id := range []string{"old", "new"} {
		p := playOn(t, w, in)
		p.then(func() { p.send(id, "FAIL") })
		p.run()
		in.Reopened, in.Executions = true, w.finished[0].Record.Executions
	}
	blocks := heard[event.BlockUpsert](w, "s1")
	require.Len(t, blocks, 2)
	require.NotEqual(t, blocks[0].Block.ID, blocks[1].Block.ID)
	require.Contains(t, w.results("s1"), "new")
}

// TestR11NoStatusInTheRecord: the persisted record has no status.
func TestR11NoStatusInTheRecordInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "hello") })
	p.run()
	require.Len(t, p.w.finished, 1)
	for key := range fieldsOf(t, p.w.finished[0].Record) {
		require.NotContains(t, key, "tatus")
		require.NotContains(t, key, "oading")
	}
}
