package e2e

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// childState is what a session of a tree is at when the tree's top ends.
type childState struct {
	options session.Options
	// prompt is its message; at is waited for.
	prompt func() string
	at     func(ctx context.Context, t *testing.T, h *session.Handle, prompt string)
}

// childStates are the states that a child can be in, at any level.
func childStates() map[string]childState {
	gated := func() string { return "GATE tree-" + uuid.NewString() }
	asks := session.Options{Permission: adapters.PermissionAsk}
	parks, limited := asks, session.Options{}
	parks.Park, limited.Limits.ModelCalls = 1000, 1
	atGate := func(ctx context.Context, t *testing.T, _ *session.Handle, prompt string) {
		require.NoError(t, spaceOf(t).Model.Waiting(ctx, prompt[len("GATE "):]))
	}
	askedFor := func(_ context.Context, t *testing.T, h *session.Handle, _ string) {
		heardUntil(t, h, 0, nth[event.PermissionRequested](1))
	}
	tool := func() string { return "TOOL bash: touch made.txt THEN TOOL bash: touch more.txt" }
	return map[string]childState{
		"starting":  {prompt: gated, at: func(context.Context, *testing.T, *session.Handle, string) {}},
		"in a call": {prompt: gated, at: atGate},
		"with a queue": {prompt: gated, at: func(ctx context.Context, t *testing.T, h *session.Handle, prompt string) {
			atGate(ctx, t, h, prompt)
			_, err := h.Send(ctx, session.Message{Text: "SAY never"})
			require.NoError(t, err)
		}},
		"asking a person": {options: asks, prompt: tool, at: askedFor},
		"parked": {options: parks, prompt: tool, at: func(ctx context.Context, t *testing.T, h *session.Handle, prompt string) {
			askedFor(ctx, t, h, prompt)
			eventually(t, func(*assert.CollectT) bool { i := inspection(t, h); return i.Parked != nil && i.Sandbox == nil }, patience, tick)
		}},
		"paused by a limit": {options: limited, prompt: tool, at: func(_ context.Context, t *testing.T, h *session.Handle, _ string) {
			eventually(t, func(*assert.CollectT) bool { return inspection(t, h).Status == session.StatusPaused }, patience, tick)
		}},
	}
}

// TestPropagation: whatever a child and a grandchild are at, interrupting the top of the tree
// ends both, and so do closing and terminating it. Nothing of them is left on the host, and no
// request of theirs is open.
func TestPropagation(t *testing.T) {
	skip.InShort(t, "in every state; TestR41AbortPropagation and TestR42ClosePropagation have a call in a tool")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	for way, end := range map[string]func(context.Context, *testing.T, *session.Handle){
		"interrupted": func(ctx context.Context, t *testing.T, top *session.Handle) {
			_, err := top.Interrupt(ctx, session.InterruptRequest{Reason: "all of it"})
			require.NoError(t, err)
		},
		"closed": func(ctx context.Context, t *testing.T, top *session.Handle) { require.NoError(t, top.Close(ctx)) },
		"terminated": func(ctx context.Context, t *testing.T, top *session.Handle) {
			require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, top.ID(), "", "an operator"))
			awaitClosed(t, top, "terminated")
		},
	} {
		for name, state := range childStates() {
			t.Run(way+" "+name, func(t *testing.T) {
				inParallel(t)
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
				defer cancel()
				top := open(t, session.Options{Agent: "codex"})
				// A session that has used up its limit spawns none: what is at the state are
				// leaves, one at each level.
				branch, _ := spawnGated(t, top)
				tree := []*session.Handle{top, branch, spawnIn(ctx, t, top, state), spawnIn(ctx, t, branch, state)}
				end(ctx, t, top)
				for _, h := range tree[1:] {
					heardUntil(t, h, 0, nth[event.SessionClosed](1))
					i := inspection(t, h)
					require.Equal(t, session.StatusClosed, i.Status)
					require.Empty(t, i.Pending)
					requireNothingLeft(t, w, h)
				}
				if way == "interrupted" {
					// A child says that it is closed before its workflow ends.
					eventually(t, func(*assert.CollectT) bool { return len(childrenOf(t, top)) == 0 }, patience, tick)
					require.NoError(t, top.ClearAbort(ctx))
					require.NoError(t, say(t, top, "SAY the top goes on").Err())
					require.NoError(t, top.Close(ctx))
				}
				for _, h := range tree {
					requireSame(t, h.ID())
				}
			})
		}
	}
}

// spawnIn spawns a child that comes to a state.
func spawnIn(ctx context.Context, t *testing.T, parent *session.Handle, s childState) *session.Handle {
	t.Helper()
	prompt := s.prompt()
	reply, err := parent.Spawn(ctx, session.SpawnRequest{Options: s.options, Message: session.Message{Text: prompt}})
	require.NoError(t, err)
	child, err := spaceOf(t).Client.Get(ctx, reply.ChildID)
	require.NoError(t, err)
	s.at(ctx, t, child, prompt)
	return child
}
