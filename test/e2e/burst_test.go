package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// Number and size of the signals: together more than the 50 MB that Temporal stores for
// one workflow run.
const (
	burstSignals = 59
	burstBytes   = 900_000
)

// TestMoreThanAHistoryHoldsInOneTurn sends more in one turn than a workflow's history
// may have, with a plain Temporal client. The session continues, its turn is answered
// by one request to the model, and every message is answered or its failure is in the
// conversation.
func TestMoreThanAHistoryHoldsInOneTurn(t *testing.T) {
	skip.InShort(t, "it fills a history")
	aloneInOwnNamespace(t) // it fills memory
	startWorker(t)
	h, raw := open(t, session.Options{}), bare(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	first, gate := sendToGate(ctx, t, h, "")
	require.Equal(t, burstSignals, burst(ctx, raw, h.ID(), func() { awaitRoom(ctx, t, h.ID()) }), "each is accepted")
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, first)
	heardUntil(t, h, 0, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.QueryStarted)
		return ok && p.MessageIDs[0] == largeID(1)
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
	require.Equal(t, 1, ended[largeID(0)])
}

// roomBytes is the largest history of a run before the next signal: well above the size
// at which the workflow continues as new, and so far below Temporal's limit that one task
// can replay it.
const roomBytes = 16 << 20

// awaitRoom waits until the session's run has room for another signal. What comes while a
// task of the workflow is at work counts for its size only when that ends, and a worker that
// is behind by a whole history can't continue it as new; TestFullHistoryIsRecorded covers that.
func awaitRoom(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool {
		d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, id, "")
		require.NoError(c, err)
		atWork := d.GetPendingWorkflowTask().GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
		return !atWork && d.GetWorkflowExecutionInfo().GetHistorySizeBytes() < roomBytes
	}, patience, tick, "the worker takes what was sent")
}

// burst sends the signals one after the other until one is not accepted, and returns
// how many were. Each waits for room first.
func burst(ctx context.Context, raw client.Client, id string, room func()) (accepted int) {
	padding := strings.Repeat("x", burstBytes)
	for n := range burstSignals {
		room()
		err := raw.SignalWorkflow(ctx, id, "", session.SignalMessage, map[string]any{
			"id": largeID(n), "text": padding, "parts": []any{map[string]any{"type": "text", "text": fmt.Sprintf("SAY %d", n)}},
		})
		if err != nil {
			return n
		}
	}
	return burstSignals
}

func largeID(n int) string { return fmt.Sprintf("large-%d-", n) }

// TestFullHistoryIsRecorded is the same on a Temporal with its stock limits, which
// terminates a workflow that gets this many signals before one of its tasks can
// complete. The conversation then names every accepted message without an answer. If
// the worker keeps up, the session is closed instead, with the same result.
func TestFullHistoryIsRecorded(t *testing.T) {
	skip.InShort(t, "it fills a history")
	// No t.Parallel, as in the test above.
	rest := newServer(t, "--temporal-config", "history.maximumBufferedEventsSizeInBytes=2097152",
		"--temporal-config", "limit.mutableStateSize.error=8388608", "--temporal-config", "system.transactionSizeLimit=4194304")
	w := &world{temporal: rest, nats: rest, s3: rest}
	w.inhabit(t)
	w.worker = startWorker(t, w.variables()...)
	raw, err := client.Dial(client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Logger: silent{}})
	require.NoError(t, err)
	defer raw.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	h, err := w.client.Create(ctx, "", session.Options{Agent: "claude"})
	require.NoError(t, err)
	first, gate := sendToGate(ctx, t, h, "")
	accepted := burst(ctx, raw, h.ID(), func() {})
	spaceOf(t).Model.Open(gate)
	t.Logf("%d of %d accepted", accepted, burstSignals)
	require.Positive(t, accepted)
	if accepted == burstSignals {
		// A worker with -race may need several attempts at a step; Close returns an
		// UnservedError meanwhile.
		var unserved *session.UnservedError
		require.Eventually(t, func() bool {
			err = h.Close(ctx)
			return !errors.As(err, &unserved)
		}, patience, tick)
		require.NoError(t, err)
	}
	var told string
	require.Eventually(t, func() bool {
		conv, err := w.client.Show(ctx, h.ID(), session.FromArchive)
		if err != nil {
			return false
		}
		whole, err := json.Marshal(conv.State)
		told = string(whole)
		return err == nil && strings.Contains(told, largeID(accepted-1))
	}, patience, tick, "the last accepted one is named")
	// A worker that kept up has answered some before the close.
	ended := answered(t, h)
	for _, id := range append(largeIDs(accepted), first.MessageID) {
		require.True(t, slices.Contains(ended, id) || strings.Contains(told, id), "%s is answered or named", id)
	}
}

func largeIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, largeID(i))
	}
	return ids
}
