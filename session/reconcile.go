package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Workflows that clean up behind sessions whose own workflow was ended from
// outside: terminated, failed or timed out.
const (
	// ReconcileType ends one dead session: its sandbox, and what it owed.
	ReconcileType = "SojournReconcile"
	// ReconcilerType finds the dead ones; the schedule starts it.
	ReconcilerType = "SojournReconciler"
	// ReconcilerSchedule is the id of that schedule.
	ReconcilerSchedule = "sojourn-reconciler"
)

// ReconcileEvery is how often the schedule looks for dead sessions.
const ReconcileEvery = time.Minute

// Dead names the run of a session's workflow that somebody ended.
type Dead struct {
	SessionID string `json:"sessionId"`
	RunID     string `json:"runId"`
}

// Died says whether a workflow's status is that of a session that did not
// close itself.
func Died(s enumspb.WorkflowExecutionStatus) bool {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return true
	}
	return false
}

// Reconcile has a dead session cleaned up. It returns at once; a run that is
// being cleaned up, or was, is not cleaned up again.
func Reconcile(ctx context.Context, c client.Client, d Dead) error {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       reconcileID(d),
		TaskQueue:                                TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "cleans up behind session " + d.SessionID,
	}, ReconcileType, d)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &started) {
		return fmt.Errorf("reconcile session %s: %w", d.SessionID, err)
	}
	return nil
}

func reconcileID(d Dead) string { return "sojourn-reconcile-" + d.SessionID + "-" + d.RunID }

// EnsureReconciler makes the schedule that finds dead sessions, unless it is
// there; made says whether it was not.
func EnsureReconciler(ctx context.Context, c client.Client) (made bool, err error) {
	_, err = c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID:      ReconcilerSchedule,
		Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: ReconcileEvery}}},
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		// What was missed is found by the next one.
		CatchupWindow: ReconcileEvery,
		Action: &client.ScheduleWorkflowAction{
			ID: ReconcilerSchedule, Workflow: ReconcilerType, TaskQueue: TaskQueue,
			WorkflowRunTimeout: 10 * ReconcileEvery,
		},
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make the schedule %s: %w", ReconcilerSchedule, err)
	}
	return true, nil
}

// Evict asks a session's workflow to give up its sandbox; it returns when the
// workflow has agreed, before the sandbox has ended. It fails if a turn runs or
// is queued, or if the sandbox is not the session's.
func Evict(ctx context.Context, c client.Client, sessionID string, req EvictRequest) error {
	u, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: sessionID, UpdateName: UpdateEvict, Args: []any{req}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = u.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("evict sandbox %s of session %s: %w", req.SandboxID, sessionID, FromTemporal(err))
	}
	return nil
}
