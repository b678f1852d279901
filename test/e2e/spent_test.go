package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestAMessageIDOutlivesTheSessionsClose: a client that got no answer may send a
// message again without running it twice, also if the session was closed and reopened
// in between.
func TestAMessageIDOutlivesTheSessionsClose(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	once := session.Message{ID: "once", Text: "SAY once"}
	r, err := h.Send(ctx, once)
	require.NoError(t, err)
	answeredWell(ctx, t, h, r)
	for _, atOnce := range []bool{false, true} {
		require.NoError(t, h.Close(ctx))
		h, err = spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
		require.NoError(t, err)
		if !atOnce {
			require.Eventually(t, func() bool {
				now, err := h.Inspect(ctx)
				return err == nil && now.Phase == "idle"
			}, patience, tick)
		}
		r, err := h.Send(ctx, once)
		if atOnce && err == nil { // accepted: the session has not read its earlier messages yet
			var res session.Result
			res, err = h.Wait(ctx, r)
			require.NoError(t, err)
			require.ErrorContains(t, res.Err(), "was sent to the session before")
			require.Equal(t, "message.id", res.Error.Field)
			continue
		}
		var invalid *session.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "message.id", invalid.Field)
	}
	require.NoError(t, say(t, h, "SAY another").Err())
	asked := 0
	for _, p := range payloads[event.QueryStarted](events(t, h)) {
		if p.MessageIDs[0] == once.ID {
			asked++
		}
	}
	require.Equal(t, 1, asked)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}
