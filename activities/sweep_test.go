package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/sandbox"
)

// awaiting is a Temporal whose sessions all wait for a sandbox.
type awaiting struct{ acknowledging }

func (awaiting) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		PendingActivities:     []*workflow.PendingActivityInfo{{ActivityType: &common.ActivityType{Name: NameCreateSandbox}}},
	}, nil
}

// A sandbox that a worker was making when it died holds no place: the attempt
// that makes another one may be waiting for it.
func TestSweepEndsWhatWasHalfMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.temporal = awaiting{}
	b.worker()
	b.begin()
	b.create()
	require.NoError(t, b.host.Sweep(t.Context()))
	_, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err, "its maker may be about to report it")

	b.worker()
	require.NoError(t, b.host.Sweep(t.Context()))
	_, err = b.provider.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound)
}
