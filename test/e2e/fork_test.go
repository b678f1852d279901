package e2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// A fork begins with the conversation up to and including a message, or all of it; its agent
// remembers that and no more, and the original stays as it is.
func TestR7Fork(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx, c := testContext(t), spaceOf(t).Client
		h := open(t, session.Options{
			Agent: a.Info().Name, Title: "Login bug", Tags: []string{"auth"}, Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"core"`)},
		})
		require.NoError(t, say(t, h, "SAY first words").Err())
		require.NoError(t, say(t, h, "TOOL write: kept.txt :: some text").Err())
		require.NoError(t, say(t, h, "SUBAGENT TOOL bash: ls ANDTHEN SAY looked around").Err())
		sent, err := h.Send(ctx, session.Message{ID: "the-last", Text: "SAY second words"})
		require.NoError(t, err)
		_, err = h.Wait(ctx, sent)
		require.NoError(t, err)
		before, err := c.Show(ctx, h.ID(), session.FromArchive)
		require.NoError(t, err)
		saved, err := c.Load(ctx, h.ID())
		require.NoError(t, err)

		// At a message, while the original is open.
		point := textBlock(t, before.State.Blocks, "first words")
		f, err := c.Fork(ctx, h.ID(), session.Fork{At: point.ID})
		require.NoError(t, err)
		require.NotEqual(t, h.ID(), f.ID())
		requireFork(t, f, h.ID(), point.ID)
		conv, err := c.Show(ctx, f.ID(), session.FromAuto)
		require.NoError(t, err)
		require.Equal(t, idsUpTo(before.State.Blocks, point.ID), idsOf(conv.State.Blocks), "up to and including the fork point")
		remembered := say(t, f, "RECALL").Result.Response
		require.Contains(t, remembered, "first words")
		require.NotContains(t, remembered, "second words")
		require.NotContains(t, remembered, "SUBAGENT")
		conv, err = c.Show(ctx, f.ID(), session.FromStream)
		require.NoError(t, err)
		require.Equal(t, idsUpTo(before.State.Blocks, point.ID), idsUpTo(conv.State.Blocks, point.ID), "subscribers have it from the beginning")

		// The whole conversation, with its files, of a closed one.
		require.NoError(t, h.Close(ctx))
		whole, err := c.Fork(ctx, h.ID(), session.Fork{ID: h.ID() + "-again"})
		require.NoError(t, err)
		require.Equal(t, h.ID()+"-again", whole.ID())
		requireFork(t, whole, h.ID(), "")
		conv, err = c.Show(ctx, whole.ID(), session.FromAuto)
		require.NoError(t, err)
		require.Equal(t, idsOf(before.State.Blocks), idsOf(conv.State.Blocks))
		require.Equal(t, len(before.State.Subagents), len(conv.State.Subagents))
		require.Contains(t, say(t, whole, "RECALL").Result.Response, "second words")
		require.NoError(t, say(t, whole, "TOOL bash: grep some kept.txt").Err())
		conv, err = c.Show(ctx, whole.ID(), session.FromStream)
		require.NoError(t, err)
		require.True(t, toolSaid(conv.State.Blocks, "some text"), "its agent has the files")
		_, err = whole.Send(ctx, session.Message{ID: "the-last", Text: "SAY something else"})
		require.Error(t, err, "a message id of the original is used")
		_, err = c.Fork(ctx, h.ID(), session.Fork{ID: whole.ID()})
		require.ErrorIs(t, err, session.ErrExists)

		// Both forks are sessions like any other, and can be closed and restored.
		for _, fork := range []*session.Handle{f, whole} {
			require.NoError(t, fork.Close(ctx))
			requireSameBlocks(t, fork.ID())
		}
		again, err := c.Open(ctx, f.ID(), session.Options{})
		require.NoError(t, err)
		require.Contains(t, say(t, again, "RECALL").Result.Response, "first words")

		// The original was not touched.
		after, err := c.Load(ctx, h.ID())
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(after.RawTranscript, saved.RawTranscript), "its transcript has only grown, when it was closed")
		require.Equal(t, saved.Title, after.Title)
		conv, err = c.Show(ctx, h.ID(), session.FromArchive)
		require.NoError(t, err)
		require.Equal(t, idsOf(before.State.Blocks), idsOf(conv.State.Blocks))
	})

	// By the command line, and what it refuses.
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "codex", "--title", "Short"))
	sojourn(t, "send", id, "SAY hello")
	forked := strings.TrimSpace(sojourn(t, "fork", id))
	require.Contains(t, sojourn(t, "show", forked), "hello")
	require.Contains(t, sojourn(t, "ls", "--query", "WorkflowId = '"+forked+"'"), "Short (fork)")
	refused := runProgram(t, "sojourn", "", nil, "fork", id, "--at", "no-such-block")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.err, "no block")
	require.NotContains(t, sojourn(t, "ls"), "Short (fork) (fork)")
}

// requireFork checks what a fork says of itself.
func requireFork(t *testing.T, f *session.Handle, of, at string) {
	t.Helper()
	i, err := f.Inspect(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "Login bug (fork)", i.Title)
	require.Equal(t, []string{"auth"}, i.Options.Tags)
	require.JSONEq(t, `"`+of+`"`, string(i.Options.Metadata["parentSessionId"]))
	require.JSONEq(t, `"core"`, string(i.Options.Metadata["team"]))
	require.Equal(t, at != "", i.Options.Metadata["forkPointMessageId"] != nil)
	if at != "" {
		require.JSONEq(t, `"`+at+`"`, string(i.Options.Metadata["forkPointMessageId"]))
	}
	require.Zero(t, i.Turns)
	require.Nil(t, i.Sandbox)
}

// textBlock returns the agent's text with this content.
func textBlock(t *testing.T, blocks []event.Block, text string) event.Block {
	t.Helper()
	for _, b := range blocks {
		if b.Type == event.BlockAssistantText && b.Content != nil && *b.Content == text {
			return b
		}
	}
	require.Failf(t, "no block", "with %q", text)
	return event.Block{}
}

// idsUpTo returns the ids of the blocks up to one of them.
func idsUpTo(blocks []event.Block, id string) []string {
	ids := idsOf(blocks)
	for i := range ids {
		if ids[i] == id {
			return ids[:i+1]
		}
	}
	return nil
}

// toolSaid reports whether the result of a call has a text.
func toolSaid(blocks []event.Block, text string) bool {
	for _, b := range blocks {
		if b.Type == event.BlockToolResult && strings.Contains(string(b.Output), text) {
			return true
		}
	}
	return false
}
