package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// Children watches child sessions where Temporal doesn't: Temporal reports the end of a
// child only to the run that started it, and a child that outlives this run outlives its
// parent too.
type Children struct {
	Temporal client.Client
	Stream   *stream.Log
}

// lookEvery is how often Temporal is asked about a silent child: a terminated child reports
// nothing itself. closingPatience is how long to wait for a child's workflow after its
// session:closed.
const (
	lookEvery       = 15 * time.Second
	closingPatience = 5 * time.Second
)

// AwaitChild waits until a child's workflow has ended and returns its output. The
// error of one that did not close its session is its termination.
func (c *Children) AwaitChild(ctx context.Context, in contract.AwaitChildInput) (session.Output, error) {
	listening, stop := context.WithCancel(ctx)
	closed, stopped := c.whenClosed(listening, in.SessionID)
	defer func() { stop(); <-stopped }()
	for patience := time.Duration(0); ; {
		out, ended, err := c.look(ctx, in, patience)
		if ended || err != nil {
			return out, toApplicationError(err)
		}
		activity.RecordHeartbeat(ctx)
		select {
		case <-closed:
			patience = closingPatience
		case <-time.After(lookEvery):
			patience = 0
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// whenClosed sends when a session has closed, or may have, until ctx ends; then it closes
// stopped.
func (c *Children) whenClosed(ctx context.Context, sessionID string) (closed chan struct{}, stopped chan struct{}) {
	closed, stopped = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(stopped)
		for change, err := range c.Stream.Changes(ctx) {
			if err != nil {
				return // ctx has ended, or the stream is unavailable: then Temporal is polled
			}
			if change.Kind != stream.ChangeMissed && (change.Kind != stream.ChangeClosed || change.SessionID != sessionID) {
				continue
			}
			select {
			case closed <- struct{}{}:
			default:
			}
		}
	}()
	return closed, stopped
}

// look waits for up to patience for a child's end, and reports whether it has ended.
func (c *Children) look(ctx context.Context, in contract.AwaitChildInput, patience time.Duration) (out session.Output, ended bool, err error) {
	info, err := c.describe(ctx, in.SessionID)
	if err != nil {
		return out, false, err
	}
	if info == nil {
		return out, true, terminationError(session.Terminated)
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && info.GetFirstRunId() == in.RunID {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		// A run that ended otherwise may have been reset: the next look decides.
		err := c.Temporal.GetWorkflow(ctx, in.SessionID, info.GetExecution().GetRunId()).Get(ctx, &out)
		return out, err == nil, nil
	}
	run := in.RunID // the session was reopened: the earlier run is the awaited one
	if info.GetFirstRunId() == in.RunID {
		run = info.GetExecution().GetRunId()
	}
	err = c.Temporal.GetWorkflow(ctx, in.SessionID, run).Get(ctx, &out)
	var ending *temporal.WorkflowExecutionError
	if errors.As(err, &ending) {
		return out, true, terminationError(session.TerminationIn(ending))
	}
	return out, err == nil, err
}

func terminationError(t session.Termination) error {
	return temporal.NewNonRetryableApplicationError(t.Sentence(), session.TypeTerminated, nil)
}

// ParentSandbox returns the sandbox of a child's parent. The error is [session.TypeNoSlot]
// while it has none.
func (c *Children) ParentSandbox(ctx context.Context, in contract.ParentSandboxInput) (session.Sandbox, error) {
	var parent session.Inspection
	v, err := c.Temporal.QueryWorkflow(ctx, in.Parent, "", session.QueryInspect)
	if err == nil {
		err = v.Get(&parent)
	}
	switch {
	case err != nil:
		return session.Sandbox{}, toApplicationError(fmt.Errorf("ask session %s for its sandbox: %w", in.Parent, err))
	case parent.Sandbox == nil:
		return session.Sandbox{}, temporal.NewApplicationError(fmt.Sprintf("session %s has no sandbox yet", in.Parent), session.TypeNoSlot)
	}
	return *parent.Sandbox, nil
}

// CancelChildren asks the children of a terminated session to close, as their parent would
// have. An id that is not its child is left alone.
func (c *Children) CancelChildren(ctx context.Context, in contract.CancelChildrenInput) error {
	for _, id := range in.Children {
		if err := c.cancel(ctx, in.Parent, id); err != nil {
			return fmt.Errorf("close child %s of terminated session %s: %w", id, in.Parent, err)
		}
	}
	return nil
}

func (c *Children) cancel(ctx context.Context, parent, id string) error {
	info, err := c.describe(ctx, id)
	if err != nil || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || info.GetParentExecution().GetWorkflowId() != parent {
		return err
	}
	_, err = c.Temporal.WorkflowService().RequestCancelWorkflowExecution(ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace: activity.GetInfo(ctx).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id}, FirstExecutionRunId: info.GetFirstRunId(),
		Reason: "its parent was terminated",
	})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil // it has ended meanwhile
	}
	return err
}

// describe returns Temporal's description of the last run of a workflow; nil if there is
// none.
func (c *Children) describe(ctx context.Context, id string) (*workflowpb.WorkflowExecutionInfo, error) {
	d, err := c.Temporal.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describe session %s: %w", id, err)
	}
	return d.GetWorkflowExecutionInfo(), nil
}
