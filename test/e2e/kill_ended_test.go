package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestKillHostBehindATurnsEnd: a host is lost between a turn's end and its archiving,
// and the stream is deleted before the session is resumed. The end is in the host's
// last heartbeat, so the message is not run again and has one end.
func TestKillHostBehindATurnsEnd(t *testing.T) {
	skip.InShort(t, "TestKillHost loses a host too; this one deletes the stream of all besides")
	inParallel(t)
	all := newServer(t)
	w := &world{temporal: all, nats: all, s3: all}
	w.inhabit(t)
	store, through := forward(t, w.env["AWS_ENDPOINT_URL_S3"])
	first := startKillable(t, append(w.variables(), "AWS_ENDPOINT_URL_S3="+through)...)
	m := w.begin(t, "claude")
	l := follow(t, m.h)
	store.Stop()
	shared.Model.Open(m.gateA)
	shared.Model.Open(m.gateB)
	l.until(t, 0, nth[event.QueryCompleted](2))
	w.awaitBeat(t, m.h.ID(), `"ended"`)
	first.lose()
	w.deleteStream(t)
	startKillable(t, w.variables()...)

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	res, err := m.h.Wait(ctx, m.receipt)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Equal(t, "whole", res.Result.Response)
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, m.asked(), "what the model was asked of each step")
	require.NoError(t, m.h.Close(testContext(t)))
	kept, err := w.client.Show(testContext(t), m.h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(kept.State.Blocks, func(b event.Block) bool {
		return b.Type == event.BlockUserMessage && b.Content != nil && *b.Content == m.text
	}), "the message is kept, though nobody has what the agent did with it")
	after, gone := uint64(0), (*stream.GapError)(nil)
	for _, err := range m.h.Events(testContext(t), 0, false) {
		require.ErrorAs(t, err, &gone, "the stream was deleted")
		after = gone.Have - 1
		break
	}
	for ev, err := range m.h.Events(testContext(t), after, false) {
		require.NoError(t, err)
		require.NotContains(t, []event.Type{"query:started", "query:completed"}, ev.Type(), "the turn is not run again and has no other end")
	}
}

// TestKillHostBehindTheArchive: a host is lost with a turn that S3 was away for, and that
// has ended. What the stream has of it is kept when the session continues elsewhere, and when
// it is closed instead; with the stream deleted too, the message is.
func TestKillHostBehindTheArchive(t *testing.T) {
	skip.InShort(t, "TestKillHost loses a host too; this one loses one without a turn")
	withClaude(t)
	inParallel(t)
	for name, c := range map[string]struct{ goesOn, deleted bool }{
		"goes on":              {goesOn: true},
		"goes on, no stream":   {goesOn: true, deleted: true},
		"is closed":            {},
		"is closed, no stream": {deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			all := newServer(t)
			w := &world{temporal: all, nats: all, s3: all}
			w.inhabit(t)
			store, through := forward(t, w.env["AWS_ENDPOINT_URL_S3"])
			first := startKillable(t, append(w.variables(), "AWS_ENDPOINT_URL_S3="+through)...)
			h, err := w.client.Create(testContext(t), "", session.Options{Agent: "codex"})
			require.NoError(t, err)
			require.NoError(t, say(t, h, "SAY this is archived").Err())
			store.Stop()
			require.NoError(t, say(t, h, "SAY this is not").Err())
			behind(t, h, true)
			first.lose()
			if c.deleted {
				w.deleteStream(t)
			}
			startKillable(t, w.variables()...)
			turns := 2
			if c.goesOn {
				require.NoError(t, say(t, h, "SAY and on").Err())
				turns++
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			require.NoError(t, h.Close(ctx))
			if !c.deleted {
				w.requireWhole(t, h, turns)
			}
			kept, err := w.client.Show(testContext(t), h.ID(), session.FromArchive)
			require.NoError(t, err)
			require.Empty(t, kept.Faults)
			var asked []string
			for _, b := range kept.State.Blocks {
				if b.Type == event.BlockUserMessage {
					asked = append(asked, *b.Content)
				}
			}
			want := []string{"SAY this is archived", "SAY this is not", "SAY and on"}
			require.Equal(t, want[:turns], asked)
		})
	}
}

// awaitBeat waits until the heartbeat of a session's turn contains a text.
func (w *world) awaitBeat(t *testing.T, id, text string) {
	t.Helper()
	c, err := client.DialContext(testContext(t), client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Logger: silent{}})
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool {
		d, err := c.DescribeWorkflowExecution(testContext(t), id, "")
		return err == nil && slices.ContainsFunc(d.PendingActivities, beatHas(text))
	}, patience, tick, "the heartbeat has %s", text)
}

// beatHas returns whether an activity's latest heartbeat has a text.
func beatHas(text string) func(*workflowpb.PendingActivityInfo) bool {
	return func(a *workflowpb.PendingActivityInfo) bool {
		return slices.ContainsFunc(a.GetHeartbeatDetails().GetPayloads(), func(p *commonpb.Payload) bool {
			return strings.Contains(string(p.Data), text)
		})
	}
}
