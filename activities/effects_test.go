package activities

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// halfDone returns a bench whose runner was killed while a tool was running; the next
// attempt, the third, resumes.
func halfDone(t *testing.T, then permission.OnLoss) (*bench, contract.RunTurnInput) {
	t.Helper()
	b, _ := leased(t, time.Minute)
	b.agent.UnknownEffects = permission.EffectRules{{Tool: "bash", Match: "true", Then: then}}
	in := b.ask(1, "words 3 begin hang")
	done := b.aside(t.Context(), 1, in)
	b.until(b.last, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.BlockUpsert)
		return ok && p.Block.Type == event.BlockToolUse && p.Block.Status == event.StatusComplete
	})
	status, err := b.status()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(status.Supervisor, syscall.SIGKILL))
	require.Error(t, (<-done).err)
	_, err = b.attempt(t.Context(), 2, in)
	require.ErrorContains(t, err, errResumed.Error())
	return b, in
}

// marked counts the calls that the conversation marks as of unknown effect.
func (b *bench) marked() (n int) {
	for _, block := range folded(b.events()).Blocks {
		if effects.Unknown(block) {
			n++
		}
	}
	return n
}

// handOver sends a control until the turn takes it.
func (b *bench) handOver(in contract.ControlInput) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.control(in).Handed }, time.Minute, 10*time.Millisecond)
}

// A person is asked once, and the agent gets the answer once, whichever workers die
// meanwhile.
func TestR52UnknownEffectIsAskedOnce(t *testing.T) {
	t.Parallel()
	b, in := halfDone(t, permission.LossAsk)
	var asked event.PermissionRequested
	for n := 3; n < 5; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		done := b.aside(ctx, n, in)
		asked = b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)
		require.Eventually(t, func() bool { _, live := b.host.live(b.agent.SessionID, "x1"); return live != nil }, time.Minute, 10*time.Millisecond)
		cancel()
		require.Error(t, (<-done).err)
		b.worker()
	}
	require.Zero(t, countLines(b.heard(), "Continue from where"), "there is no answer yet")
	done := b.aside(t.Context(), 5, in)
	b.handOver(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true, By: "ana"}})
	over := <-done
	require.NoError(t, over.err)
	require.Equal(t, session.Completed, over.out.Result.Outcome)
	events := b.events()
	require.Equal(t, 1, count[event.PermissionRequested](events))
	require.Equal(t, 1, count[event.PermissionResolved](events))
	require.Equal(t, 1, count[event.QueryStarted](events))
	require.Equal(t, 1, countLines(b.heard(), "Continue from where"))
	require.Equal(t, 1, countLines(b.heard(), "(call toolu_"))
	require.Equal(t, 1, b.marked())
}

// Ending the turn leaves a session that takes messages, and sends the agent nothing.
func TestUnknownEffectEndsTheTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  permission.OnLoss
		does  func(b *bench, request string)
		wants session.Outcome
	}{
		"rule": {permission.LossFail, nil, session.Failed},
		"denial": {permission.LossAsk, func(b *bench, request string) {
			b.handOver(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: request, Message: "I look myself"}})
		}, session.Failed},
		"interrupt": {permission.LossAsk, func(b *bench, _ string) {
			b.handOver(contract.ControlInput{ExecutionID: "x1", ID: "i1", Interrupt: &contract.Interrupt{Reason: "enough"}})
		}, session.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, in := halfDone(t, c.then)
			done := b.aside(t.Context(), 3, in)
			if c.does != nil {
				c.does(b, b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested).RequestID)
			}
			over := <-done
			require.NoError(t, over.err)
			require.Equal(t, c.wants, over.out.Result.Outcome)
			if c.wants == session.Failed {
				require.Equal(t, session.TypeEffectUnknown, over.out.Result.Error.Code)
				require.Contains(t, over.out.Result.Error.Message, "Bash (call toolu_")
			} else {
				require.Equal(t, "enough", over.out.Result.Reason)
			}
			require.Equal(t, 1, b.marked())
			require.Equal(t, 1, countLines(b.heard(), `"type":"user"`), "the agent is asked nothing")
			require.Equal(t, count[event.PermissionRequested](b.events()), count[event.PermissionResolved](b.events()))
			b.last = over.out.LastSeq
			next := b.turn(b.ask(2, "words 2"))
			require.Equal(t, session.Completed, next.Result.Outcome)
			require.Equal(t, 1, b.marked())
		})
	}
}

// A question that waits for longer than a turn holds its agent parks the turn, and is asked
// once: the answer counts in the next sandbox.
func TestR52UnknownEffectIsParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer permission.Decision
		wants  session.Outcome
	}{
		"allowed": {permission.Decision{Allow: true, By: "ana"}, session.Completed},
		"denied":  {permission.Decision{Message: "I look myself", By: "ana"}, session.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, in := halfDone(t, permission.LossAsk)
			in.Agent.Park = 1
			out, err := b.attempt(t.Context(), 3, in)
			require.NoError(t, err)
			require.NotNil(t, out.Parked)
			request := out.Parked.Open()[0]
			require.Equal(t, []string{request + " requested"}, requestsIn(t, b.log, b.agent.SessionID))
			require.Equal(t, 1, countLines(b.heard(), `"type":"user"`), "the agent is asked nothing")

			p := *out.Parked
			_, first := p.Decide(request, c.answer)
			require.True(t, first)
			b.last = out.LastSeq
			in = b.resumedWith(in, p, false)
			over, err := b.attempt(t.Context(), 1, in)
			require.NoError(t, err)
			require.Equal(t, c.wants, over.Result.Outcome)
			require.Len(t, requestsIn(t, b.log, b.agent.SessionID), 3, "requested, answered, ended")
			require.Equal(t, 1, b.marked())
			require.Contains(t, strings.Join(notices(b.events(), "resumed"), "\n"), name+" by ana")
			told := countLines(b.heard(), "(call toolu_")
			if c.answer.Allow {
				require.Equal(t, 1, told)
				require.Zero(t, countLines(b.heard(), "While you waited"), "the agent had asked nothing")
				return
			}
			require.Zero(t, told)
			require.Equal(t, session.TypeEffectUnknown, over.Result.Error.Code)
			require.Contains(t, over.Result.Error.Message, "I look myself")
		})
	}
}

// The death of the agent alone marks its call, and applies no rule.
func TestUnknownEffectOfADeadAgent(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.UnknownEffects = permission.EffectRules{{Tool: "*", Then: permission.LossAsk}}
	out := b.turn(b.ask(1, "begin words 2 die"))
	require.Equal(t, session.TypeAgentFailed, out.Result.Error.Code)
	require.Equal(t, 1, b.marked())
	require.Zero(t, count[event.PermissionRequested](b.events()))
	entries, err := b.store.ServerEntries(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	kept := 0
	for _, e := range entries {
		if p, ok := e.Event.Payload.(event.BlockUpsert); ok && effects.Unknown(p.Block) {
			require.True(t, strings.HasPrefix(e.Anchor.AfterBlockID, "toolu_"), e.Anchor.AfterBlockID)
			kept++
		}
	}
	require.Equal(t, 1, kept, "Sojourn's transcript has it")
}
