package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// More than Temporal keeps of one workflow run, 50 MB: so many signals of so
// many bytes.
const (
	burstSignals = 59
	burstBytes   = 900_000
)

// TestMoreThanAHistoryHoldsInOneTurn sends more in one turn than a workflow's
// history may hold, by a client that knows nothing of Sojourn. The session lives,
// its turn is answered by one request to the model, and every message is answered
// or its failure is in the conversation.
func TestMoreThanAHistoryHoldsInOneTurn(t *testing.T) {
	startWorker(t)
	h, raw := open(t, session.Options{}), bare(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	first, gate := sendToGate(ctx, t, h, "")
	padding := strings.Repeat("x", burstBytes)
	for n := range burstSignals {
		require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", session.SignalMessage, map[string]any{
			"id": fmt.Sprintf("large-%d", n), "text": padding, "parts": []any{map[string]any{"type": "text", "text": fmt.Sprintf("SAY %d", n)}},
		}), "signal %d", n)
		// The workflow has the signal when it answers.
		_, err := raw.QueryWorkflow(ctx, h.ID(), "", session.QueryRemains)
		require.NoError(t, err, "after signal %d", n)
	}
	shared.model.Open(gate)
	answeredWell(ctx, t, h, first)
	heardUntil(t, h, 0, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.QueryStarted)
		return ok && p.MessageIDs[0] == "large-1"
	})
	require.NoError(t, h.Close(ctx))

	ended, refused := map[string]int{}, 0
	for _, ev := range events(t, h) {
		if _, ok := ev.Payload.(event.Error); ok {
			refused++
		}
	}
	for _, id := range answered(t, h) {
		ended[id]++
	}
	t.Logf("%d ended, %d refused", len(ended), refused)
	require.Equal(t, burstSignals+1, len(ended)+refused)
	require.Equal(t, 1, ended[first.MessageID])
	require.Equal(t, 1, ended["large-0"])
}
