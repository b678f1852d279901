package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestR124LongestIdleGivesWay: a host whose slots are all taken by idle sandboxes
// evicts one of them, the longest idle first. It is archived before, and its session
// continues with the next message.
func TestR124LongestIdleGivesWay(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t, "--capacity=2")
	handles := []*session.Handle{open(t, session.Options{}), open(t, session.Options{}), open(t, session.Options{})}
	require.NoError(t, say(t, handles[0], "SAY remember the word clementine").Err())
	require.NoError(t, say(t, handles[1], "SAY second").Err())
	awaitIdle(t, handles[0])
	awaitIdle(t, handles[1])
	began := time.Now()
	require.NoError(t, say(t, handles[2], "SAY third").Err())
	t.Logf("answered with every slot taken by idle sandboxes: %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, []string{"slot"}, reasons(t, handles[0]), "the longest idle one gave way")
	require.Empty(t, reasons(t, handles[1]))
	require.Contains(t, say(t, handles[0], "RECALL").Result.Response, "clementine")
	for _, h := range handles {
		require.NoError(t, h.Close(testContext(t)))
		requireSame(t, h.ID())
	}
}

// TestR124BusyIsNotEvicted: a sandbox with a running turn is not evicted. A session
// that waits for a slot reports it, and gets the slot when a turn has ended.
func TestR124BusyIsNotEvicted(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t, "--capacity=1")
	busy, h := open(t, session.Options{}), open(t, session.Options{})
	gate := "place-" + uuid.NewString()
	ctx := testContext(t)
	running, err := busy.Send(ctx, session.Message{Text: "GATE " + gate + " THEN SAY done"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	waits, err := h.Send(ctx, session.Message{Text: "SAY at last"})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) bool {
		i, err := h.Inspect(ctx)
		require.NoError(c, err)
		return i.Phase == "waiting for a sandbox" && strings.Contains(i.WaitsFor, "waiting for a free slot")
	}, patience, tick, "the wait is reported")
	held := regexp.MustCompile(h.ID() + ` .* running \(waiting for a free slot.*\) `)
	require.Eventually(t, func() bool { return held.MatchString(sojourn(t, "ls")) }, patience, tick, "not while an attempt looks for one")
	require.Regexp(t, busy.ID()+` .* running  `, sojourn(t, "ls"))
	require.Empty(t, payloads[event.EECreating](events(t, h)))
	spaceOf(t).Model.Open(gate)
	for _, x := range []struct {
		h *session.Handle
		r session.Receipt
	}{{busy, running}, {h, waits}} {
		res, err := x.h.Wait(ctx, x.r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
	}
	require.Equal(t, []string{"slot"}, reasons(t, busy))
	i, err := h.Inspect(ctx)
	require.NoError(t, err)
	require.Empty(t, i.WaitsFor)
}

// TestAMessageInterruptedEarlyIsKept: a message that is interrupted while its session waits
// for a sandbox, so that no agent ever had it, is in the conversation all the same, live and
// restored, before what the session is told next.
func TestAMessageInterruptedEarlyIsKept(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t, "--capacity=1")
	ctx := testContext(t)
	busy, h := open(t, session.Options{}), open(t, session.Options{})
	running, gate := sendToGate(ctx, t, busy, "")
	early, err := h.Send(ctx, session.Message{Text: "SAY never heard"})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) bool {
		i, err := h.Inspect(ctx)
		require.NoError(c, err)
		return i.Phase == "waiting for a sandbox"
	}, patience, tick)
	_, err = h.Interrupt(ctx, session.InterruptRequest{Reason: "too slow"})
	require.NoError(t, err)
	res, err := h.Wait(ctx, early)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, busy, running)
	require.NoError(t, say(t, h, "SAY heard").Err())
	require.NoError(t, h.Close(ctx))

	shown, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromStream)
	require.NoError(t, err)
	var said []string
	for _, b := range shown.State.Blocks {
		if b.Type == event.BlockUserMessage {
			said = append(said, *b.Content)
		}
	}
	require.Equal(t, []string{"SAY never heard", "SAY heard"}, said)
	requireSame(t, h.ID())
}
