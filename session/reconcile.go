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

// Workflows that clean up after sessions whose own workflow was ended from
// outside: terminated, failed or timed out.
const (
	// ReconcileType cleans up after one such session: its sandbox, and its pending
	// messages.
	ReconcileType = "SojournReconcile"
	// ReconcilerType lists them; the schedule starts it.
	ReconcilerType = "SojournReconciler"
	// ReconcilerSchedule is the id of that schedule.
	ReconcilerSchedule = "sojourn-reconciler"
)

// ReconcileEvery is how often the schedule looks for terminated sessions.
const ReconcileEvery = time.Minute

// TerminatedRun names the run of a session's workflow that was ended from
// outside.
type TerminatedRun struct {
	SessionID string `json:"sessionId"`
	RunID     string `json:"runId"`
}

// Termination is how a session's workflow ended that did not close its session; "" for one
// that is running or closed it. It is the reason in session:closed.
type Termination string

const (
	Terminated         Termination = "terminated"
	TerminatedByFault  Termination = "failed"
	TerminatedByTime   Termination = "timed out"
	TerminatedByCancel Termination = "cancelled"
)

// TerminationOf returns how a workflow with a status ended its session.
func TerminationOf(s enumspb.WorkflowExecutionStatus) Termination {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return Terminated
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return TerminatedByFault
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return TerminatedByTime
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return TerminatedByCancel
	}
	return ""
}

// TerminationIn returns how the workflow ended its session, according to an error.
func TerminationIn(err error) Termination {
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	switch {
	case errors.As(err, &terminated):
		return Terminated
	case errors.As(err, &timeout):
		return TerminatedByTime
	case errors.As(err, &cancelled):
		return TerminatedByCancel
	}
	return TerminatedByFault
}

// Sentence describes the termination for people.
func (t Termination) Sentence() string {
	switch t {
	case TerminatedByFault, TerminatedByTime:
		return "the session's workflow " + string(t)
	case TerminatedByCancel:
		return "the session's workflow was cancelled"
	}
	return "the session was terminated"
}

// Reconcile starts the cleanup of a terminated session and returns at once. A run
// that is being cleaned up, or was, is not cleaned up again.
func Reconcile(ctx context.Context, c client.Client, run TerminatedRun) error {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       reconcileID(run),
		TaskQueue:                                TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "cleans up after session " + run.SessionID,
	}, ReconcileType, run)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &started) {
		return fmt.Errorf("reconcile session %s: %w", run.SessionID, err)
	}
	return nil
}

func reconcileID(run TerminatedRun) string {
	return "sojourn-reconcile-" + run.SessionID + "-" + run.RunID
}

// EnsureReconciler creates the schedule that finds terminated sessions, unless it
// exists; made reports whether it did not.
func EnsureReconciler(ctx context.Context, c client.Client) (made bool, err error) {
	_, err = c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID:      ReconcilerSchedule,
		Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: ReconcileEvery}}},
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		// A missed run needs no catch-up: the next one finds the same sessions.
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

// Evict requests a session's workflow to end its sandbox. It returns when the
// workflow has accepted, before the sandbox has ended. It fails if a turn runs or
// is queued, except as EvictsBusy says, or if the sandbox is not the session's.
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
