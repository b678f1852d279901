package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestSeenIsKeptOfAnInterruptedTurn interrupts every agent in the middle of a text. No
// transcript has the part that subscribers received, but the restored conversation has
// it, in its place.
func TestSeenIsKeptOfAnInterruptedTurn(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name})
		require.NoError(t, say(t, h, "SAY before").Err())
		r, gate := sendToGate(ctx, t, h, "")
		heardUntil(t, h, r.AfterSeq, nth[event.BlockDelta](1))
		blocks := interruptedAtGate(ctx, t, h, r, gate)
		require.NotEmpty(t, texts(blocks, "waiting at "), "the half that was seen")
	})
}

// interruptedAtGate interrupts a turn, has another one, and returns the conversation that
// is restored behind the session's end.
func interruptedAtGate(ctx context.Context, t *testing.T, h *session.Handle, r session.Receipt, gate string) []event.Block {
	t.Helper()
	_, err := h.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	spaceOf(t).Model.Open(gate)
	require.Equal(t, "after", say(t, h, "SAY after").Result.Response)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())

	restored, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromArchive)
	require.NoError(t, err)
	return restored.State.Blocks
}

// TestInterruptBeforeTheAgentReacts interrupts while the agent starts: it is sent the
// message and the interrupt at once, and Gemini CLI, which waits for a server that is
// slow, drops the message without storing it. Stored or not, the message is in the
// conversation, and what comes behind it is, too.
func TestInterruptBeforeTheAgentReacts(t *testing.T) {
	skip.InShort(t, "TestEveryAgentIsInterrupted interrupts a turn that has begun")
	withClaude(t)
	inOwnNamespace(t)
	store := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(store, "slow"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store, "slow", "mcp.json"),
		[]byte(`{"mcpServers": {"slow": {"command": "sleep", "args": ["1"]}}}`), 0o600))
	startWorker(t, "SOJOURN_PROFILES="+store)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := openWithProfile(t, store, a.Info().Name, "slow")
		gate := "never-" + h.ID()
		r, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
		require.NoError(t, err)
		heardUntil(t, h, r.AfterSeq, nth[event.QueryStarted](1))
		blocks := interruptedAtGate(ctx, t, h, r, gate)
		var asked []string
		for _, b := range blocks {
			if b.Type == event.BlockUserMessage {
				asked = append(asked, *b.Content)
			}
		}
		require.Equal(t, []string{"GATE " + gate, "SAY after"}, asked)
	})
}

// texts returns the answers with a prefix.
func texts(blocks []event.Block, prefix string) (found []event.Block) {
	for _, b := range blocks {
		if b.Type == event.BlockAssistantText && strings.HasPrefix(*b.Content, prefix) {
			found = append(found, b)
		}
	}
	return found
}

// TestKillHostKeepsWhatWasSeen loses the host of every agent during a tool, after text
// and a call that were not archived. The turn is resumed elsewhere, and the restored
// conversation has everything that was streamed before.
func TestKillHostKeepsWhatWasSeen(t *testing.T) {
	skip.InShort(t, "TestKillHost loses a host too")
	inOwnNamespace(t)
	first := startKillable(t)
	var turns []*staged
	for _, a := range scripted() {
		// No subagent: Codex would wait an hour for one that was lost with its host.
		turns = append(turns, stageThen(t, first.dir, a.Info().Name, func(*staged) string { return "" }))
	}
	for _, s := range turns {
		s.atGate(0)
		s.openGate(0)
		s.inTool()
	}
	startKillable(t)
	first.lose()
	for _, s := range turns {
		s.goOn()
	}
	for _, s := range turns {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		res, err := s.h.Wait(ctx, s.r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
		require.NoError(t, s.h.Close(ctx))
		s.l.closed(t)
		requireParity(t, s.h.ID())
	}
	first.start()
}
