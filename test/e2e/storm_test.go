package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// A storm has rounds, since at most session.MaxQueue messages may wait. In each round
// the run continues as new.
const (
	stormRounds  = 4
	stormSenders = 10
	stormEach    = 20 // messages of each sender in a round, and updates
)

// TestStorm sends signals from ten senders, and updates, into running turns, across
// runs of the workflow. Each message ends once, each sender's in order, and none is
// lost. A test of the workflow alone has ten times as many.
func TestStorm(t *testing.T) {
	skip.InShort(t, "the same is done to the workflow alone")
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	h := open(t, session.Options{})
	began := time.Now()
	var sent []string
	for round := range stormRounds {
		first, _ := sendToGate(ctx, t, h, "")
		sent = append(sent, first.MessageID)
		sent = append(sent, storm(ctx, t, h, round)...)
		reply, err := h.Interrupt(ctx, session.InterruptRequest{ClearQueue: true})
		require.NoError(t, err)
		requireStorm(t, round, reply.Cancelled)
		res, err := h.Wait(ctx, first)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Outcome)
	}
	t.Logf("%d messages in %s", len(sent), time.Since(began).Round(time.Second))
	require.Eventually(t, func() bool { return runsOf(ctx, t, h) > stormRounds }, patience, tick, "each round saw the next run")
	require.NoError(t, h.Close(ctx))
	ends := answered(t, h)
	slices.Sort(ends)
	slices.Sort(sent)
	require.Equal(t, sent, ends, "each has one end")
}

func stormID(sender string, n int) string { return fmt.Sprintf("%s-%05d", sender, n) }

// storm sends a round and returns the ids when all of its messages are queued.
func storm(ctx context.Context, t *testing.T, h *session.Handle, round int) (ids []string) {
	t.Helper()
	var all errgroup.Group
	raw, c := bare(t), spaceOf(t).Temporal
	all.Go(func() error { return renewRun(ctx, c, raw, h.ID()) })
	for s := range stormSenders + 1 {
		sender := fmt.Sprintf("s%02d", s)
		for n := range stormEach {
			ids = append(ids, stormID(sender, round*stormEach+n))
		}
		all.Go(func() error {
			for n := range stormEach {
				m := session.Message{ID: stormID(sender, round*stormEach+n), Text: "SAY never"}
				var err error
				if s == stormSenders {
					_, err = h.Send(ctx, m)
				} else {
					err = raw.SignalWorkflow(ctx, h.ID(), "", session.SignalMessage, m)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", m.ID, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.Eventually(t, func() bool {
		s, err := h.Snapshot(ctx)
		return err == nil && len(s.Queued) == len(ids)
	}, patience, tick, "all of them wait")
	return ids
}

// requireStorm checks that a round is complete, and each sender's messages in order.
func requireStorm(t *testing.T, round int, waited []session.Message) {
	t.Helper()
	order := map[string][]string{}
	for _, m := range waited {
		sender, _, _ := strings.Cut(m.ID, "-")
		order[sender] = append(order[sender], m.ID)
	}
	require.Len(t, order, stormSenders+1)
	for sender, ids := range order {
		var want []string
		for n := range stormEach {
			want = append(want, stormID(sender, round*stormEach+n))
		}
		require.Equal(t, want, ids)
	}
}

// runsOf returns the number of runs of a session's workflow.
func runsOf(ctx context.Context, t *testing.T, h *session.Handle) int {
	t.Helper()
	page, err := spaceOf(t).Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s'", h.ID())})
	require.NoError(t, err)
	return len(page.GetExecutions())
}

// TestInterruptWithEverySlotTaken: a hundred callers wait for a turn, and turns use all
// slots of the host. An interrupt stops its turn while the others continue, and each
// caller gets the result.
func TestInterruptWithEverySlotTaken(t *testing.T) {
	const slots, waiters = 3, 100
	inOwnNamespace(t)
	startWorker(t, fmt.Sprintf("--capacity=%d", slots))
	ctx := testContext(t)
	var handles []*session.Handle
	var receipts []session.Receipt
	var gates []string
	for range slots {
		h := open(t, session.Options{})
		r, gate := sendToGate(ctx, t, h, "")
		handles, receipts, gates = append(handles, h), append(receipts, r), append(gates, gate)
	}
	// One more waits for a slot, so that no slot is free.
	more := open(t, session.Options{})
	next, err := more.Send(ctx, session.Message{ID: uuid.NewString(), Text: "SAY at last"})
	require.NoError(t, err)

	var all errgroup.Group
	var ready sync.WaitGroup
	results := make([]session.Result, waiters)
	ready.Add(waiters)
	for i := range waiters {
		all.Go(func() (err error) {
			ready.Done()
			results[i], err = handles[0].Wait(ctx, receipts[0])
			return err
		})
	}
	ready.Wait()
	began := time.Now()
	_, err = handles[0].Interrupt(ctx, session.InterruptRequest{Reason: "enough"})
	require.NoError(t, err)
	taken := time.Since(began)
	require.NoError(t, all.Wait())
	t.Logf("the interrupt was taken after %s, and %d waiters had the end after %s", taken.Round(time.Millisecond), waiters, time.Since(began).Round(time.Millisecond))
	for _, res := range results {
		require.Equal(t, session.Interrupted, res.Outcome)
		require.Equal(t, "enough", res.Reason)
	}
	for _, h := range handles[1:] {
		s, err := h.Snapshot(ctx)
		require.NoError(t, err)
		require.Equal(t, session.StatusRunning, s.Status, "the other turns hold their slots")
	}
	for i, gate := range gates[1:] {
		spaceOf(t).Model.Open(gate)
		answeredWell(ctx, t, handles[i+1], receipts[i+1])
	}
	answeredWell(ctx, t, more, next)
}
