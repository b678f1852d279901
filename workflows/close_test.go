package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestCloseWhileATurnRunsInterruptsFirst(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "HOLD one") })
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Len(t, p.w.ended, 1)
	require.Equal(t, "closed", p.w.finished[0].Reason)
}

// L1: every message with a receipt has its failure in the results and in the conversation.
func TestCloseRecordsWhatWasNeverAnswered(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "never two"); p.send("m3", "never three") },
		func() { p.update(session.UpdateClose) },
	)
	p.runOpen()
	require.Equal(t, []string{"HOLD one"}, p.w.prompts("s1"))
	for _, id := range []string{"m2", "m3"} {
		res := p.w.results("s1")[id]
		require.Equal(t, session.Failed, res.Outcome)
		require.Equal(t, session.TypeClosed, res.Error.Code)
		require.Equal(t, res, queried[session.Result](p, session.QueryResult, id))
	}
	blocks := heard[event.BlockUpsert](p.w, "s1")
	require.Len(t, blocks, 1)
	require.Equal(t, event.BlockSystem, blocks[0].Block.Type)
	require.Contains(t, *blocks[0].Block.Message, "never two (m2)")
	require.Contains(t, *blocks[0].Block.Message, "never three (m3)")
}

// A signal can't be refused: one that arrives while the session closes is recorded like
// those before.
func TestASignalWhileTheSessionClosesIsRecorded(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.ending = func() {
		p.signalText("late", "too late")
		p.signal(session.SignalMessage, "json/plain", `{"text": 5}`)
	}
	p.then(func() { p.send("m1", "one") }, func() { p.send("m2", "HOLD two"); p.send("m3", "never three") })
	p.run()
	require.Equal(t, session.TypeClosed, p.w.results("s1")["late"].Error.Code)
	require.Equal(t, session.TypeClosed, p.w.results("s1")["m3"].Error.Code)
	require.Len(t, refusals(p.w), 1)
	ids := map[string]bool{}
	for _, b := range heard[event.BlockUpsert](p.w, "s1") {
		ids[b.Block.ID] = true
	}
	require.Len(t, ids, 3, "one does not overwrite another")
	last := p.w.stream[len(p.w.stream)-1]
	require.IsType(t, event.SessionClosed{}, last.payload)
}

// TestR18ClosedIsFinalInWorkflow: close itself is idempotent; every other operation on a
// closing session is refused.
func TestR18ClosedIsFinalInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.crowded = true
	var again *answer
	refused := map[string]*answer{}
	p.then(func() { p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) })
	p.w.ending = nil
	p.then(func() {
		p.update(session.UpdateClose)
		again = p.update(session.UpdateClose)
		for name, arg := range map[string]any{
			session.UpdateSend: session.Message{Text: "text"}, session.UpdateRender: session.RenderRequest{},
			session.UpdateInterrupt: session.InterruptRequest{}, session.UpdateConfigure: session.Configure{},
			session.UpdateSpawn: spawnOf("other", "text"), session.UpdateRespond: session.RespondRequest{RequestID: "r1"},
		} {
			refused[name] = p.update(name, arg)
		}
		refused[session.UpdateClearAbort] = p.update(session.UpdateClearAbort)
		refused[session.UpdateEvict] = p.update(session.UpdateEvict)
	})
	p.runOpen()
	require.True(t, again.done)
	require.NoError(t, again.err)
	for name, a := range refused {
		require.ErrorIs(t, session.FromTemporal(a.refused), session.ErrClosed, name)
	}
	require.Len(t, p.w.finished, 2)
	require.Equal(t, session.StatusClosed, p.snapshot().Status)
}

// Canceling the workflow closes the session.
func TestCancelIsClose(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "HOLD one") }, func() { p.send("m2", "two") }, func() { p.env.CancelWorkflow() })
	p.runOpen()
	require.Equal(t, "cancelled", p.w.finished[0].Reason)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
	require.Equal(t, session.TypeClosed, p.w.results("s1")["m2"].Error.Code)
	require.Len(t, p.w.ended, 1)
}

// TestR28CloseInWorkflow: children, then the turn, then the sandbox, then the end; also
// when a child takes longer to end than the session's own turn.
func TestR28CloseInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.deaf, p.w.deafOne = 3, "child"
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
	)
	p.run()
	var order []string
	for _, s := range p.w.stream {
		switch s.payload.(type) {
		case event.QueryInterrupted, event.EETerminated, event.SessionClosed, event.SubagentCompleted:
			order = append(order, s.session+" "+string(event.TypeOf(s.payload)))
		}
	}
	require.ElementsMatch(t, []string{"s1 query:interrupted", "child query:interrupted"}, order[:2])
	require.Equal(t, "s1 session:closed", order[len(order)-1])
	require.Equal(t, "s1 ee:terminated", order[len(order)-2])
	require.Contains(t, order[:len(order)-2], "child session:closed")
}

func TestANewSessionClosesWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.after(30*24*time.Hour, func() {})
	out := p.run()
	require.Equal(t, session.Output{}, out)
	require.Empty(t, p.w.places)
}

func TestBadInputFailsTheWorkflowAtOnce(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*session.Input){
		"agent":        func(in *session.Input) { in.Options.Agent = "" },
		"permission":   func(in *session.Input) { in.Options.Permission = "maybe" },
		"message.text": func(in *session.Input) { in.First = &session.Message{} },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, change)
			p.env.ExecuteWorkflow(session.WorkflowType, p.in)
			var invalid *session.InvalidError
			require.ErrorAs(t, session.FromTemporal(p.env.GetWorkflowError()), &invalid)
			require.Equal(t, field, invalid.Field)
			require.Empty(t, p.w.begun)
		})
	}
	t.Run("sessionId", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t)
		p.in.SessionID = "another"
		p.env.ExecuteWorkflow(session.WorkflowType, p.in)
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(p.env.GetWorkflowError()), &invalid)
		require.Equal(t, "sessionId", invalid.Field)
	})
}

// The last write may wait for hours: what arrives meanwhile is recorded too, and the
// session's end is behind it.
func TestASignalDuringTheLastWriteIsRecorded(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.finishing = func() {
		p.w.finishing = nil
		p.signalText("late", "too late")
		p.signal(session.SignalMessage, "json/plain", `{"text": 5}`)
	}
	p.then(func() { p.send("m1", "one") })
	p.run()
	require.Contains(t, p.w.results("s1"), "late")
	require.Equal(t, session.TypeClosed, queried[session.Result](p, session.QueryResult, "late").Error.Code)
	require.Len(t, refusals(p.w), 1)
	require.Len(t, p.w.finished, 2)
	require.Greater(t, p.w.finished[1].Epoch, p.w.finished[0].Epoch, "the end is written under a key of its own")
	require.IsType(t, event.SessionClosed{}, p.w.stream[len(p.w.stream)-1].payload)
}
