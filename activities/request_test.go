package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// requestsIn returns what a session's stream has of permission requests, and of the ends of
// turns.
func requestsIn(t *testing.T, log *stream.Log, id string) (out []string) {
	t.Helper()
	require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool {
		switch p := ev.Payload.(type) {
		case event.PermissionRequested:
			out = append(out, p.RequestID+" requested")
		case event.PermissionResolved:
			out = append(out, p.RequestID+" "+p.Decision)
		case event.QueryCompleted, event.QueryFailed, event.QueryInterrupted:
			out = append(out, "ended")
		}
		return true
	}))
	return out
}

// TestRequestOfALostHost: a request that was open when its host was lost is withdrawn where
// the turn is resumed, once, also if the worker there dies behind it: its agent can't take
// an answer any more.
func TestRequestOfALostHost(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = permission.Ask
	in := b.ask(1, "words 2 ask words 1")
	ctx, cancel := context.WithCancel(t.Context())
	lost := b.aside(ctx, 1, in)
	id := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested).RequestID
	cancel()
	require.Error(t, (<-lost).err)

	b.create() // on the next host
	in.Resumes = &session.Lost{Host: "host-0", Times: 1, AfterSeq: in.LastSeq}
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	ctx, cancel = context.WithCancel(t.Context())
	lost = b.aside(ctx, 1, in)
	b.until(in.LastSeq, is[event.PermissionRequested])
	require.Equal(t, []string{id + " requested", id + " cancelled", id + " requested"}, requestsIn(t, b.log, b.agent.SessionID))
	cancel()
	require.Error(t, (<-lost).err)

	b.worker()
	in.Agent.Permission = permission.Allow
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Equal(t, []string{id + " requested", id + " cancelled", id + " requested", id + " allow", "ended"}, requestsIn(t, b.log, b.agent.SessionID))
}

// TestQuestionOfALostHost: so is a question whether the turn is to continue, and the next host
// asks its own. It has another id: an answer to the first is none to it.
func TestQuestionOfALostHost(t *testing.T) {
	t.Parallel()
	b, in := halfDone(t, permission.LossAsk)
	ctx, cancel := context.WithCancel(t.Context())
	lost := b.aside(ctx, 3, in)
	first := b.until(b.last, is[event.PermissionRequested])
	cancel()
	require.Error(t, (<-lost).err)

	in.Resumes = &session.Lost{Host: "host-0", Times: 1, AfterSeq: in.LastSeq}
	b.last = first.Context.Seq
	b.create() // on the next host
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	ctx, cancel = context.WithCancel(t.Context())
	lost = b.aside(ctx, 1, in)
	require.Eventually(t, func() bool { return len(requestsIn(t, b.log, b.agent.SessionID)) == 3 }, time.Minute, 10*time.Millisecond)
	cancel()
	require.Error(t, (<-lost).err)
	id := first.Payload.(event.PermissionRequested).RequestID
	seen := requestsIn(t, b.log, b.agent.SessionID)
	require.Equal(t, []string{id + " requested", id + " cancelled"}, seen[:2])
	require.NotEqual(t, seen[0], seen[2])
}
