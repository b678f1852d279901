package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
)

// awaiting is a Temporal whose sessions all wait for a sandbox.
type awaiting struct{ acknowledging }

func (awaiting) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		PendingActivities:     []*workflow.PendingActivityInfo{{ActivityType: &common.ActivityType{Name: contract.ActivityCreateSandbox}}},
	}, nil
}

// A sandbox that a worker was making when it died holds no slot: the attempt that makes
// another one may be waiting for it.
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

// untidy is a provider without sandboxes that can't remove the remains of some.
type untidy struct {
	sandbox.Provider
	left error
}

func (untidy) List(context.Context) ([]sandbox.Info, error) { return nil, nil }

func (u *untidy) Tidy(context.Context) error { return u.left }

// What a sweep could not remove is in the host's report until a sweep can.
func TestLeftoversAreNamed(t *testing.T) {
	t.Parallel()
	p := &untidy{left: errors.Join(
		&sandbox.LeftError{Path: "/data/.gone-a", Err: errors.New("remove /data/.gone-a/x: operation not permitted")},
		&sandbox.LeftError{Path: "/data/.gone-b", Err: errors.New("remove /data/.gone-b/y: device or resource busy")},
	)}
	h := NewHost(HostOptions{Options: host.Options{ID: "h", DataDir: t.TempDir(), Provider: p, Log: quiet()}})
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	require.Error(t, h.Sweep(t.Context()))
	report, err := h.DescribeHost(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{
		"not removed yet: remove /data/.gone-a/x: operation not permitted",
		"not removed yet: remove /data/.gone-b/y: device or resource busy",
	}, report.Leftovers)
	p.left = nil
	require.NoError(t, h.Sweep(t.Context()))
	report, err = h.DescribeHost(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Leftovers)
}
