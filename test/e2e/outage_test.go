package e2e

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

// forward starts a forwarder to a server and returns it with the address that goes
// through it.
func forward(t *testing.T, server string) (f *harness.Forwarder, through string) {
	t.Helper()
	f, err := harness.Forward(server)
	require.NoError(t, err)
	t.Cleanup(f.Stop)
	return f, f.Through()
}

// behind waits until the session reports, or no longer reports, that its archive is
// behind.
func behind(t *testing.T, h *session.Handle, want bool) {
	t.Helper()
	var said string
	eventually(t, func(c *assert.CollectT) bool {
		i, err := h.Inspect(testContext(t))
		require.NoError(c, err)
		said = i.ArchiveBehind
		return (said != "") == want && i.Phase == "idle"
	}, patience, tick, "the archive is behind: %t", want)
}

// archived reports whether the archived conversation equals the streamed one.
func archived(t *testing.T, h *session.Handle) bool {
	t.Helper()
	live, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromStream)
	require.NoError(t, err)
	restored, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	return len(differences(t, live, restored)) == 0
}

// TestR114ArchiveAway: turns continue without the archive, the session reports that it
// is behind, and it catches up when the archive is back.
func TestR114ArchiveAway(t *testing.T) {
	inOwnNamespace(t)
	archive, through := forward(t, shared.Env["AWS_ENDPOINT_URL_S3"])
	startWorker(t, "AWS_ENDPOINT_URL_S3="+through)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY kept at once").Err())
	require.Eventually(t, func() bool { return archived(t, h) }, patience, tick)

	archive.Stop()
	require.Equal(t, "goes on", say(t, h, "TOOL bash: echo away THEN SAY goes on").Result.Response)
	require.NoError(t, say(t, h, "SAY and on").Err())
	behind(t, h, true)
	require.False(t, archived(t, h))
	shown, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	require.Equal(t, 3, shown.Turns)

	require.NoError(t, archive.Start())
	require.NoError(t, say(t, h, "SAY back again").Err())
	behind(t, h, false)
	require.Eventually(t, func() bool { return archived(t, h) }, patience, tick, "the archive catches up")
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// TestCloseWaitsForTheArchive: a session is not closed before everything is archived;
// it closes by itself when the archive is back.
func TestCloseWaitsForTheArchive(t *testing.T) {
	inOwnNamespace(t)
	archive, through := forward(t, shared.Env["AWS_ENDPOINT_URL_S3"])
	w := startWorker(t, "AWS_ENDPOINT_URL_S3="+through)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY kept at once").Err())
	archive.Stop()
	require.NoError(t, say(t, h, "SAY not kept yet").Err())
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- h.Close(ctx) }()
	eventually(t, func(c *assert.CollectT) bool {
		d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, h.ID(), "")
		require.NoError(c, err)
		for _, a := range d.GetPendingActivities() {
			if a.GetActivityType().GetName() == "EndSandbox" && a.GetAttempt() > 1 {
				return true
			}
		}
		return false
	}, patience, tick, "it tries again")
	select {
	case err := <-closed:
		require.Fail(t, "closed without the archive", "%v", err)
	default:
	}
	require.Len(t, sandboxes(t, w), 1, "what is not archived stays")
	require.NoError(t, archive.Start())
	require.NoError(t, <-closed)
	require.Empty(t, sandboxes(t, w))
	requireParity(t, h.ID())
	conv, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.Equal(t, "not kept yet", *last(conv.State.Blocks).Content)
}

// TestStreamAway: the agent continues while the stream is unreachable, and when it is
// back subscribers get every event once and in order.
func TestStreamAway(t *testing.T) {
	inOwnNamespace(t)
	stream, through := forward(t, shared.Env["NATS_URL"])
	startWorker(t, "NATS_URL="+through)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY before").Err())
	gateA, gateB := "away-a-"+uuid.NewString(), "away-b-"+uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gateA + " THEN TOOL bash: echo meanwhile THEN GATE " + gateB})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gateA))
	heardUntil(t, h, r.AfterSeq, nth[event.BlockDelta](1))
	stream.Stop()
	spaceOf(t).Model.Open(gateA)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gateB), "the agent continues")
	require.NoError(t, stream.Start())
	spaceOf(t).Model.Open(gateB)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))

	deltas := map[string]string{}
	for i, ev := range events(t, h) {
		require.Equal(t, uint64(i+1), ev.Context.Seq, "dense")
		if d, ok := ev.Payload.(event.BlockDelta); ok {
			deltas[d.BlockID] += d.Delta
		}
	}
	for _, b := range fold(events(t, h)).Blocks {
		if b.Type == event.BlockAssistantText {
			require.Equal(t, *b.Content, deltas[b.ID], "no delta lost or repeated")
		}
	}
	requireParity(t, h.ID())
}
