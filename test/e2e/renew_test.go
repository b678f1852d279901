package e2e

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func runOf(ctx context.Context, t *testing.T, h *session.Handle) string {
	t.Helper()
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(ctx, h.ID(), "")
	require.NoError(t, err)
	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// renew fills the history of a session's run with signals that it ignores, until the
// next run has taken over. A workflow task has the history size from its start, without
// what arrived during the task before.
func renew(t *testing.T, h *session.Handle) {
	t.Helper()
	require.NoError(t, renewRun(testContext(t), spaceOf(t).Temporal, bare(t), h.ID()))
}

func renewRun(ctx context.Context, c, raw client.Client, id string) error {
	full := converter.NewRawValue(payload(converter.MetadataEncodingBinary, strings.Repeat("x", 900_000)).Payload())
	var first string
	for {
		d, err := c.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return err
		}
		run := d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		if first = cmp.Or(first, run); run != first {
			return nil
		}
		if d.GetWorkflowExecutionInfo().GetHistorySizeBytes() > 8<<20 {
			full = converter.NewRawValue(payload(converter.MetadataEncodingBinary, "enough").Payload())
		}
		if err := raw.SignalWorkflow(ctx, id, "", "padding", full); err != nil {
			return err
		}
	}
}

// childEnd waits for the end of a child in its parent's stream, and checks that its
// start and end are there once.
func childEnd(t *testing.T, parent, child *session.Handle) event.SubagentCompleted {
	t.Helper()
	heard := heardUntil(t, parent, 0, first(func(p event.SubagentCompleted) bool { return p.ChildSessionID == child.ID() }))
	spawned := 0
	for _, p := range payloads[event.SubagentSpawned](heard) {
		if p.ChildSessionID == child.ID() {
			spawned++
		}
	}
	require.Equal(t, 1, spawned)
	ends := payloads[event.SubagentCompleted](heard)
	return ends[len(ends)-1]
}

// TestR46AChildOutlivesItsParentsRun: a parent continues as new while its child is
// working, between two turns and during one. The child is not affected, and its end is
// reported once, however it ends.
func TestR46AChildOutlivesItsParentsRun(t *testing.T) {
	onSharedHost(t)
	t.Run("between two turns", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		parent := open(t, session.Options{})
		child, gate := spawnGated(t, parent)
		run := runOf(ctx, t, child)
		renew(t, parent)
		renew(t, parent)
		require.Equal(t, []string{child.ID()}, childrenOf(t, parent))
		require.Equal(t, run, runOf(ctx, t, child))
		spaceOf(t).Model.Open(gate)
		end := childEnd(t, parent, child)
		require.Equal(t, event.SubagentCompletedOK, end.Status)
		require.NotEmpty(t, *end.Output)
		require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
		require.NoError(t, parent.Close(ctx))
		requireDense(t, parent)
	})
	t.Run("in the middle of a turn", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		parent := open(t, session.Options{})
		r, parentGate := sendToGate(ctx, t, parent, "")
		child, gate := spawnGated(t, parent)
		renew(t, parent)
		renew(t, child) // whose own run may change too
		spaceOf(t).Model.Open(gate)
		require.Equal(t, event.SubagentCompletedOK, childEnd(t, parent, child).Status)
		spaceOf(t).Model.Open(parentGate)
		answeredWell(ctx, t, parent, r)
		require.NoError(t, parent.Close(ctx))
		requireDense(t, parent)
		requireParity(t, parent.ID())
	})
	t.Run("terminated", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		parent := open(t, session.Options{})
		before, _ := spawnGated(t, parent)
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, before.ID(), "", "an operator"))
		behind, _ := spawnGated(t, parent)
		renew(t, parent)
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, behind.ID(), "", "an operator"))
		for _, child := range []*session.Handle{before, behind} {
			end := childEnd(t, parent, child)
			require.Equal(t, event.SubagentFailed, end.Status)
			require.Equal(t, "the session was terminated", *end.Output)
		}
		require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
		require.NoError(t, parent.Close(ctx))
	})
	t.Run("reset", func(t *testing.T) {
		inParallel(t)
		ctx := testContext(t)
		parent := open(t, session.Options{})
		early, earlyGate := spawnGated(t, parent)
		renew(t, parent)
		late, lateGate := spawnGated(t, parent)
		resetTo(ctx, t, parent.ID(), lastTask)
		require.Equal(t, []string{early.ID(), late.ID()}, childrenOf(t, parent))
		resetTo(ctx, t, early.ID(), lastTask)
		spaceOf(t).Model.Open(earlyGate)
		spaceOf(t).Model.Open(lateGate)
		require.Equal(t, event.SubagentCompletedOK, childEnd(t, parent, late).Status)
		require.Equal(t, event.SubagentCompletedOK, childEnd(t, parent, early).Status)
		require.NoError(t, parent.Close(ctx))
	})
}

// TestR41AbortPropagationAcrossRuns: an interrupt reaches the children that an earlier
// run spawned, at all levels.
func TestR41AbortPropagationAcrossRuns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{})
	r, _ := sendToGate(ctx, t, parent, "")
	child, _ := spawnGated(t, parent)
	grandchild, _ := spawnGated(t, child)
	renew(t, child)
	renew(t, parent)
	_, err := parent.Interrupt(ctx, session.InterruptRequest{Reason: "stop it all"})
	require.NoError(t, err)
	res, err := parent.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	for _, h := range []*session.Handle{child, grandchild} {
		require.Equal(t, "Parent interrupted", ended(t, h).Reason)
	}
	require.Eventually(t, func() bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	require.NoError(t, parent.Close(ctx))
}

// TestR42ClosePropagationAcrossRuns: closing a session, cancelling its workflow and
// terminating it end the children that an earlier run spawned, at all levels.
func TestR42ClosePropagationAcrossRuns(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	for name, c := range map[string]struct {
		end    func(context.Context, *session.Handle) error
		reason string
	}{
		"close": {func(ctx context.Context, h *session.Handle) error { return h.Close(ctx) }, "closed"},
		"cancel": {func(ctx context.Context, h *session.Handle) error {
			return spaceOf(t).Temporal.CancelWorkflow(ctx, h.ID(), "")
		}, "cancelled"},
		"terminate": {terminateAndReconcile(t), "terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			parent := open(t, session.Options{})
			child, _ := spawnGated(t, parent)
			grandchild, _ := spawnGated(t, child)
			renew(t, parent)
			renew(t, child)
			late, _ := spawnGated(t, parent)
			require.NoError(t, c.end(ctx, parent))
			awaitClosed(t, parent, c.reason)
			for _, h := range []*session.Handle{child, grandchild, late} {
				awaitClosed(t, h, "cancelled")
			}
			require.Eventually(t, func() bool { return len(sandboxes(t, w)) == 0 }, patience, tick)
		})
	}
}

// terminateAndReconcile terminates a session's workflow and starts the reconciler at
// once, without waiting for its schedule.
func terminateAndReconcile(t *testing.T) func(context.Context, *session.Handle) error {
	return func(ctx context.Context, h *session.Handle) error {
		if err := spaceOf(t).Temporal.TerminateWorkflow(ctx, h.ID(), "", "an operator"); err != nil {
			return err
		}
		return spaceOf(t).Temporal.ScheduleClient().GetHandle(ctx, session.ReconcilerSchedule).Trigger(ctx, client.ScheduleTriggerOptions{})
	}
}
