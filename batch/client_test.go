package batch

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// forgetful is a Temporal that has no workflow any more.
type forgetful struct {
	endedClient
	started int
}

func (f *forgetful) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	f.started++
	return f, nil
}

func (f *forgetful) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, f.err
}

func (f *forgetful) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, f.err
}

func (f *forgetful) SignalWorkflow(context.Context, string, string, string, any) error { return f.err }
func (f *forgetful) CancelWorkflow(context.Context, string, string) error              { return f.err }
func (f *forgetful) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, f.err
}

// remembering knows the batch, which has ended.
type remembering struct{ forgetful }

func (*remembering) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{}, nil
}

// A batch that has ended says so to whoever wants something of it, also when Temporal has forgotten
// it; one that never was is unknown.
func TestAnEndedBatchTakesNoRequests(t *testing.T) {
	t.Parallel()
	ctx, archive := t.Context(), openArchive(t, freshNamespace(), http.DefaultTransport)
	forgets := &forgetful{endedClient: endedClient{err: serviceerror.NewNotFound("workflow execution already completed")}}
	requests := func(b *Batch) []error {
		_, err := b.Configure(ctx, Change{Window: 1})
		return []error{b.Pause(ctx), b.Resume(ctx), b.Cancel(ctx), err}
	}
	for _, err := range requests(Find(forgets, archive, "b1")) {
		require.ErrorIs(t, err, session.ErrNotFound)
	}
	for _, err := range requests(Find(&remembering{*forgets}, nil, "b1")) {
		require.ErrorIs(t, err, ErrEnded)
	}
	in := Input{Job: jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go"}}
	b, err := Start(ctx, forgets, archive, "b1", in, strings.NewReader("{}\n"))
	require.NoError(t, err)
	_, err = (&Activities{Archive: archive}).Report(ctx, ReportInput{BatchID: "b1"})
	require.NoError(t, err)
	for _, err := range requests(b) {
		require.ErrorIs(t, err, ErrEnded)
	}
}

// mute knows the batch, of which no worker answers queries.
type mute struct{ remembering }

func (*mute) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, serviceerror.NewFailedPrecondition("no poller seen for task queue recently")
}

// A batch whose worker is away says so.
func TestProgressWithoutAWorker(t *testing.T) {
	t.Parallel()
	_, err := Find(&mute{}, nil, "b1").Progress(t.Context())
	require.ErrorIs(t, err, session.ErrNoWorker)
}

// A batch that has ended is found by its id when Temporal has forgotten it: it is not run again,
// and has its report.
func TestAForgottenBatchIsNotRunAgain(t *testing.T) {
	t.Parallel()
	ctx, archive := t.Context(), openArchive(t, freshNamespace(), http.DefaultTransport)
	temporal := &forgetful{endedClient: endedClient{err: serviceerror.NewNotFound("no such workflow")}}
	start := func(id string) *Batch {
		in := Input{Job: jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go"}}
		b, err := Start(ctx, temporal, archive, id, in, strings.NewReader("{}\n{}\n"))
		require.NoError(t, err)
		return b
	}
	for id, c := range map[string]struct {
		totals Totals
		err    error
	}{
		"whole":     {Totals{Completed: 1, Failed: 1}, nil},
		"cancelled": {Totals{Completed: 1}, ErrCancelled},
	} {
		temporal.started = 0
		b := start(id)
		require.Equal(t, 1, temporal.started)
		_, err := b.Wait(ctx)
		require.ErrorIs(t, err, session.ErrNotFound, "it has no report")
		_, err = b.Progress(ctx)
		require.ErrorIs(t, err, session.ErrNotFound)

		_, err = (&Activities{Archive: archive}).Report(ctx, ReportInput{BatchID: id, Totals: c.totals})
		require.NoError(t, err)
		out, err := start(id).Wait(ctx)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.totals, out.Totals)
		p, err := Find(temporal, archive, id).Progress(ctx)
		require.NoError(t, err)
		require.Equal(t, Progress{Totals: c.totals, Items: 2}, p)
		require.Equal(t, 1, temporal.started)
	}
	_, err := Find(temporal, nil, "whole").Wait(ctx)
	require.ErrorIs(t, err, session.ErrNotFound, "without the archive")
}
