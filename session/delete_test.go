package session

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// deleting is a Temporal that deletes runs, except the one with id refused.
type deleting struct {
	workflowservice.WorkflowServiceClient
	deleted []string
	refused string
}

func (d *deleting) DeleteWorkflowExecution(_ context.Context, r *workflowservice.DeleteWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.DeleteWorkflowExecutionResponse, error) {
	run := r.GetWorkflowExecution().GetRunId()
	if run == d.refused {
		return nil, errors.New("refused")
	}
	d.deleted = append(d.deleted, run)
	return &workflowservice.DeleteWorkflowExecutionResponse{}, nil
}

// served is a Temporal with its service.
type served struct {
	*fakeTemporal
	service workflowservice.WorkflowServiceClient
}

func (s served) WorkflowService() workflowservice.WorkflowServiceClient { return s.service }

// stores returns the options of a client with everything but Temporal.
func stores(t *testing.T) ClientOptions {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-session-test", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(servers.S3(t), http.DefaultTransport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	return ClientOptions{Agents: builtin.Registry(), Stream: newLog(t), Archive: a}
}

// The newest run is deleted last, since the session is found by it, and also before Temporal's
// index has it.
func TestDeleteOfRuns(t *testing.T) {
	t.Parallel()
	o := stores(t)
	const newest = "run-of-s1"
	for name, c := range map[string]struct {
		listed  []string
		refused string
		want    []string
	}{
		"in the index":         {[]string{newest, "older"}, "", []string{"call", "older", newest}},
		"not yet in the index": {[]string{"older"}, "", []string{"call", "older", newest}},
		"an error before":      {[]string{newest, "older"}, "older", []string{"call"}},
	} {
		d, f := &deleting{refused: c.refused}, knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		f.list = func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			reply := &workflowservice.ListWorkflowExecutionsResponse{}
			if strings.Contains(r.GetQuery(), ToolCallPrefix) {
				reply.Executions = []*workflowpb.WorkflowExecutionInfo{{Execution: &commonpb.WorkflowExecution{WorkflowId: "tool-call/s1/c", RunId: "call"}}}
				return reply, nil
			}
			for _, run := range c.listed {
				reply.Executions = append(reply.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "s1", RunId: run}})
			}
			return reply, nil
		}
		o.Temporal = served{f, d}
		client, err := NewClient(o)
		require.NoError(t, err)
		err = client.Delete(t.Context(), "s1")
		require.Equal(t, c.refused != "", err != nil, name)
		require.Equal(t, c.want, d.deleted, name)
	}
}

// Another program's workflow is no session, whatever its id: its history is not deleted, and
// none of its runs is, if a session had the same id.
func TestDeleteOfAnotherWorkflow(t *testing.T) {
	t.Parallel()
	d, f := &deleting{}, knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	f.known["s1"].Type.Name = "Order"
	var asked []string
	f.list = func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		asked = append(asked, r.GetQuery())
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	o := stores(t)
	o.Temporal = served{f, d}
	client, err := NewClient(o)
	require.NoError(t, err)
	require.ErrorIs(t, client.Delete(t.Context(), "s1"), ErrNotFound)
	require.Empty(t, d.deleted)
	_, err = client.Get(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNotFound)

	f.known["s1"].Type.Name = WorkflowType
	require.NoError(t, client.Delete(t.Context(), "s1"))
	require.Equal(t, []string{"WorkflowId STARTS_WITH 'tool-call/s1/'", "WorkflowId = 's1' AND WorkflowType = 'SojournSession'"}, asked)
}
