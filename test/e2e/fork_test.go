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

// A merged session has the turns of all in the order in which they began, each message once, and
// its agent knows of all of them.
func TestR8Merge(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx, c := testContext(t), spaceOf(t).Client
	a := open(t, session.Options{Agent: "codex", Title: "First", Tags: []string{"x"}, Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"core"`)}})
	require.NoError(t, say(t, a, "SAY alpha").Err())
	forked, err := c.Fork(ctx, a.ID(), session.Fork{})
	require.NoError(t, err)
	other := "opencode"
	if testing.Short() {
		other = "codex"
	}
	b := open(t, session.Options{Agent: other, Title: "Second", Tags: []string{"y"}, Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"other"`), "b": json.RawMessage(`1`)}})
	require.NoError(t, say(t, b, "SAY beta").Err())
	require.NoError(t, say(t, b, "SUBAGENT TOOL bash: ls ANDTHEN SAY looked around").Err())
	require.NoError(t, say(t, a, "SAY gamma").Err())
	require.NoError(t, say(t, forked, "SAY delta").Err())
	require.NoError(t, b.Close(ctx))

	m, err := c.Merge(ctx, []string{a.ID(), forked.ID(), b.ID()}, "")
	require.NoError(t, err)
	i, err := m.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, "First (merged)", i.Title)
	require.Equal(t, []string{"x", "y"}, i.Options.Tags)
	require.JSONEq(t, `"core"`, string(i.Options.Metadata["team"]), "the first one's, of a key of several")
	require.JSONEq(t, `1`, string(i.Options.Metadata["b"]))
	require.JSONEq(t, bagJSON(t, []string{a.ID(), forked.ID(), b.ID()}), string(i.Options.Metadata["mergedSessionIds"]))

	require.NoError(t, say(t, m, "SAY the end").Err())
	live, err := c.Show(ctx, m.ID(), session.FromStream)
	require.NoError(t, err)
	var said []string
	for _, b := range live.State.Blocks {
		if b.Type == event.BlockAssistantText && !strings.HasPrefix(*b.Content, "FINAL") {
			said = append(said, *b.Content)
		}
	}
	require.Equal(t, []string{"alpha", "beta", "Delegating.", "gamma", "delta", "the end"}, said, "in the order of their turns, each once")
	require.Len(t, live.State.Subagents, 1)
	require.NotEmpty(t, live.State.Subagents[0].Blocks)
	require.Contains(t, i.Options.SystemPrompt, "beta")
	require.Contains(t, i.Options.SystemPrompt, "delta")
	require.NotContains(t, i.Options.SystemPrompt, "alpha", "its agent remembers the first one itself")
	require.Contains(t, say(t, m, "RECALL").Result.Response, "gamma")

	// It is a session like any other: restored, and forked.
	require.NoError(t, m.Close(ctx))
	requireSameBlocks(t, m.ID())
	at := textBlock(t, live.State.Blocks, "beta")
	f, err := c.Fork(ctx, m.ID(), session.Fork{At: at.ID})
	require.NoError(t, err)
	conv, err := c.Show(ctx, f.ID(), session.FromAuto)
	require.NoError(t, err)
	require.Equal(t, idsUpTo(live.State.Blocks, at.ID), idsOf(conv.State.Blocks))

	_, err = c.Merge(ctx, []string{a.ID()}, "")
	require.ErrorAs(t, err, new(*session.InvalidError))
	_, err = c.Merge(ctx, []string{a.ID(), "no-such-session"}, "")
	require.ErrorIs(t, err, session.ErrNotFound)
	merged := strings.TrimSpace(sojourn(t, "merge", a.ID(), b.ID()))
	require.Contains(t, sojourn(t, "show", merged), "beta")
}

func bagJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
