package activities

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// An agent that hangs is interrupted, and its turn fails with a typed error in the result and in
// the conversation. The process continues with the next message.
func TestNoProgressFailsTheTurn(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 3 hang")
	in.NoProgressMS = 2000
	out, err := b.attempt(t.Context(), 1, in)
	require.NoError(t, err)
	require.Equal(t, session.Failed, out.Result.Outcome)
	require.Equal(t, session.TypeNoProgress, out.Result.Error.Code)
	require.Contains(t, out.Result.Error.Message, "said nothing for 2s")
	require.False(t, out.AgentExited)
	require.True(t, slices.ContainsFunc(folded(b.events()).Blocks, func(k event.Block) bool {
		return k.Type == event.BlockError && k.Code == session.TypeNoProgress
	}))
	require.Equal(t, 1, count[event.QueryFailed](b.events()))
	require.Zero(t, count[event.QueryInterrupted](b.events()))
	b.last = out.LastSeq
	require.Equal(t, session.Completed, b.turn(b.ask(2, "words 3")).Result.Outcome)
}

// An agent that ignores the interrupt too is ended.
func TestNoProgressEndsADeafAgent(t *testing.T) {
	skip.InShort(t, "it waits until a deaf agent is given up")
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 3 deaf hang")
	in.NoProgressMS = 1000
	out, err := b.attempt(t.Context(), 1, in)
	require.NoError(t, err)
	require.Equal(t, session.TypeNoProgress, out.Result.Error.Code)
	require.Equal(t, 1, count[event.QueryFailed](b.events()))
}

// The wait for a person does not count, however long it is.
func TestNoProgressWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	in := b.ask(1, "ask")
	in.NoProgressMS = 10_000
	done := b.aside(t.Context(), 1, in)
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)
	b.host.mu.Lock()
	live := b.host.turns[b.agent.SessionID]
	b.host.mu.Unlock()
	// Twice the interval at which the silence is judged, and longer than the patience.
	require.Eventually(t, func() bool { return live.details.Load().Seconds >= 13 }, time.Minute, 10*time.Millisecond)
	require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true}}).Handed)
	ended := <-done
	require.NoError(t, ended.err)
	require.Equal(t, session.Completed, ended.out.Result.Outcome)
}
