package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// Type is the workflow that a call is, on the sessions' task queue.
const Type = "SojournToolCall"

// silence is how long a program may be silent during a call before it counts as lost.
const silence = time.Minute

// Workflow runs one call.
func Workflow(ctx workflow.Context, call Call) (json.RawMessage, error) {
	o := workflow.ActivityOptions{
		TaskQueue: call.Tool.TaskQueue, ScheduleToCloseTimeout: timeoutOf(call.Tool),
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	if call.Tool.Heartbeats {
		o.HeartbeatTimeout = silence
	}
	if call.Tool.Idempotent {
		o.RetryPolicy.MaximumAttempts = 0
	}
	var result json.RawMessage
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), ActivityType(call.Tool.Name), call).Get(ctx, &result)
	return result, err
}

func timeoutOf(t session.Tool) time.Duration {
	if t.TimeoutMS == 0 {
		return session.DefaultToolTimeout * time.Millisecond
	}
	return time.Duration(t.TimeoutMS) * time.Millisecond
}

// Caller makes calls. Safe for concurrent use.
type Caller struct{ Temporal client.Client }

// Call makes a call once, however often it is asked with the same id, and waits for its result until
// ctx ends; done reports whether it has ended by then.
func (c Caller) Call(ctx context.Context, id, sessionID string, t session.Tool, arguments json.RawMessage) (result json.RawMessage, done bool, err error) {
	_, err = c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID(id), TaskQueue: session.TaskQueue, StaticSummary: t.Name,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowTaskTimeout:      session.WorkflowTaskTimeout,
	}, Type, Call{SessionID: sessionID, CallID: id, Tool: t, Arguments: arguments})
	if ended := new(serviceerror.WorkflowExecutionAlreadyStarted); err != nil && !errors.As(err, &ended) {
		if ctx.Err() != nil {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("call of tool %s: %w", t.Name, err)
	}
	return c.Result(ctx, id)
}

// Result waits for the result of a call that was made before, as Call does.
func (c Caller) Result(ctx context.Context, id string) (result json.RawMessage, done bool, err error) {
	err = c.Temporal.GetWorkflow(ctx, workflowID(id), "").Get(ctx, &result)
	if missing := new(serviceerror.NotFound); errors.As(err, &missing) {
		return nil, true, errors.New("the call was not made: call the tool again")
	}
	if ended := new(temporal.WorkflowExecutionError); errors.As(err, &ended) {
		return nil, true, reason(err)
	}
	if err != nil && ctx.Err() != nil {
		return nil, false, nil
	}
	return result, err == nil, err
}

func workflowID(call string) string { return session.ToolCallPrefix + call }

// errUnknown is told of a call whose program was lost.
var errUnknown = errors.New("the program that has the tool was lost while it ran; the call's effect is unknown")

// reason returns what the agent is told of a call that failed.
func reason(err error) error {
	if app := new(temporal.ApplicationError); errors.As(err, &app) {
		return errors.New(app.Message())
	}
	if late := new(temporal.TimeoutError); errors.As(err, &late) {
		switch late.TimeoutType() {
		case enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
			return errors.New("the program that has the tool did not take the call in time; it had no effect")
		case enumspb.TIMEOUT_TYPE_HEARTBEAT:
			return errUnknown
		}
		return errors.New("the program that has the tool did not end the call in time, or is not running; the call's effect is unknown")
	}
	return err
}
