package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestSeenIsKeptOfAnInterruptedTurn interrupts every agent in the middle of a
// text. No transcript has the half that subscribers saw, and a restored
// conversation has it all the same, in its place.
func TestSeenIsKeptOfAnInterruptedTurn(t *testing.T) {
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name})
		require.NoError(t, say(t, h, "SAY before").Err())
		r, gate := sendToGate(ctx, t, h, "")
		heardUntil(t, h, r.AfterSeq, nth[event.BlockDelta](1))
		_, err := h.Interrupt(ctx, session.InterruptRequest{})
		require.NoError(t, err)
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Outcome)
		shared.model.Open(gate)
		require.Equal(t, "after", say(t, h, "SAY after").Result.Response)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())

		restored, err := shared.client.Show(ctx, h.ID(), session.FromArchive)
		require.NoError(t, err)
		require.NotEmpty(t, texts(restored.State.Blocks, "waiting at "), "the half that was seen")
	})
}

// texts are the answers that begin with a text.
func texts(blocks []event.Block, prefix string) (found []event.Block) {
	for _, b := range blocks {
		if b.Type == event.BlockAssistantText && strings.HasPrefix(*b.Content, prefix) {
			found = append(found, b)
		}
	}
	return found
}
