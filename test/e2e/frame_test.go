package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
)

// The threads of a native subagent and of a child session show their start, with the prompt as
// the user's message, and their end; live, and restored from the archive.
func TestR138FramesOfThreads(t *testing.T) {
	onSharedHost(t)
	withClaude(t) // whose subagents have an end
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SUBAGENT SAY it looked around THEN SAY outer").Err())
	x, err := h.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY from below"}})
	require.NoError(t, err)
	heardUntil(t, h, 0, first(func(p event.SubagentCompleted) bool { return p.ChildSessionID == x.Receipt().SessionID }))

	live := framesOf(t, h.ID())
	require.Equal(t, [][]string{
		{"subagent_started", "the prompt", "it looked around", "subagent_completed"},
		{"subagent_started", "the prompt", "from below", "subagent_completed"},
	}, live)
	require.NoError(t, h.Close(ctx))
	require.Equal(t, live, framesOf(t, h.ID(), "--from", "archive"))
	require.Contains(t, sojourn(t, "show", h.ID(), "--frames"), "Subagent claude completed")

	whole := framesOf(t, h.ID(), "--tree")
	require.Equal(t, live, whole, "with the child's own conversation in its place")
}

// framesOf returns each thread of show --frames: its system blocks' subtypes, its prompt, and
// what the agent said.
func framesOf(t *testing.T, id string, flags ...string) (threads [][]string) {
	t.Helper()
	var s reducer.State
	sojournJSON(t, &s, append([]string{"show", id, "--frames"}, flags...)...)
	for _, sub := range s.Subagents {
		var thread []string
		for _, b := range sub.Blocks {
			switch b.Type {
			case event.BlockSystem:
				thread = append(thread, b.Subtype)
			case event.BlockUserMessage:
				require.Equal(t, sub.Prompt, *b.Content)
				thread = append(thread, "the prompt")
			case event.BlockAssistantText:
				thread = append(thread, *b.Content)
			}
		}
		threads = append(threads, thread)
	}
	return threads
}
