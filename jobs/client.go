package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

// Job addresses a job. It holds no resources: any process finds the job again with Find.
type Job struct {
	t  client.Client
	id string
}

// Start starts a job and returns when Temporal has it. An id that is running, or has
// completed, is that job, whatever its input; one that failed is tried again. "" is a new id.
func Start(ctx context.Context, t client.Client, id string, in Input) (*Job, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	if id == "" {
		id = "job-" + uuid.NewString()
	}
	_, err := t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: session.TaskQueue, StaticSummary: in.Options.Title,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
	}, Type, in)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil, fmt.Errorf("start job %s: %w", id, err)
	}
	return Find(t, id), nil
}

// Find returns the job with an id, without asking whether there is one.
func Find(t client.Client, id string) *Job { return &Job{t, id} }

// ID returns the id of the job's workflow.
func (j *Job) ID() string { return j.id }

// Wait waits for the job's end and returns its result. A job that failed, was cancelled or was
// terminated is a *Failure; any other error is about the waiting.
func (j *Job) Wait(ctx context.Context) (Result, error) {
	var out Result
	err := j.t.GetWorkflow(ctx, j.id, "").Get(ctx, &out)
	if err == nil {
		return out, nil
	}
	if f := failureOf(err); f != nil {
		return f.Result, f
	}
	return out, fmt.Errorf("wait for job %s: %w", j.id, err)
}

// failureOf returns how a job ended whose workflow has this error; nil if it has not ended.
func failureOf(err error) *Failure {
	var details interface {
		HasDetails() bool
		Details(d ...any) error
	}
	var f Failure
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var ended *temporal.WorkflowExecutionError
	switch {
	case errors.As(err, &app):
		f.Type, f.Reason, details = app.Type(), app.Message(), app
	case errors.As(err, &cancelled):
		f.Type, f.Reason, details = TypeCancelled, "it was cancelled", cancelled
	case errors.As(err, &ended):
		return &Failure{Type: TypeEnded, Reason: "its workflow ended: " + errors.Unwrap(ended).Error()}
	default:
		return nil
	}
	if details.HasDetails() {
		_ = details.Details(&f.Result) // bad input has other details, and no result
	}
	return &f
}

// Cancel ends the job: its agent is interrupted and its session is closed. It returns when
// Temporal has the request.
func (j *Job) Cancel(ctx context.Context) error {
	if err := j.t.CancelWorkflow(ctx, j.id, ""); err != nil {
		return fmt.Errorf("cancel job %s: %w", j.id, err)
	}
	return nil
}

// Failure is how a job failed.
type Failure struct {
	// Type is one of this package's, or the code with which the agent's turn failed.
	Type   string
	Reason string
	// Result is what it had made by then.
	Result Result
}

func (f *Failure) Error() string { return f.Reason }
