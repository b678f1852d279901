package starter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// remembering is the Temporal of one open session, which answers every query alike.
type remembering struct {
	client.Client
	answer any
	err    error
}

func (r remembering) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Type: &commonpb.WorkflowType{Name: session.WorkflowType},
	}}, nil
}

func (r remembering) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return answered{r.answer}, r.err
}

type answered struct{ v any }

func (a answered) HasValue() bool { return a.v != nil }

func (a answered) Get(out any) error {
	data, err := json.Marshal(a.v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// eventLog opens a log on a stream of its own.
func eventLog(t *testing.T) *stream.Log {
	t.Helper()
	return eventLogOf(t, servers(t))
}

func servers(t *testing.T) *teststack.Shared {
	t.Helper()
	servers := &teststack.Shared{}
	t.Cleanup(servers.Stop)
	return servers
}

func eventLogOf(t *testing.T, servers *teststack.Shared) *stream.Log {
	t.Helper()
	env, name := servers.Get(t).Env, "starter-"+nats.NewInbox()[7:15]
	url := strings.Replace(env["NATS_URL"], "nats://", "nats://"+env["NATS_TOKEN"]+"@", 1)
	log, err := stream.Dial(t.Context(), url, stream.Options{Name: name, Prefix: strings.ToLower(name), Timeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	return log
}

func emit(t *testing.T, log *stream.Log, after uint64, p event.Payload) uint64 {
	t.Helper()
	last, err := log.Emit(t.Context(), "s1", stream.Emission{Fence: stream.Fence{Epoch: 1}, Key: nats.NewInbox(), LastSeq: after, Events: []event.Event{{
		Payload: p, Context: event.Context{ConversationID: event.Main, Source: event.SourceServer},
	}}})
	require.NoError(t, err)
	return last
}

// A message that was answered before all was purged is sent again with --follow: the answer
// that the session remembers is printed, or where the conversation is.
func TestFollowOfAPurgedAnswer(t *testing.T) {
	t.Parallel()
	log := eventLog(t)
	query := event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}, Result: &event.QueryResult{Response: "hello"}}
	last := emit(t, log, 0, event.QueryCompleted{Query: query})
	require.NoError(t, log.Purge(t.Context(), "s1"))
	follow := func(temporal remembering) (out, errs string, code int) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		sc, err := session.NewClient(session.ClientOptions{Temporal: temporal, Agents: builtin.Registry(), Stream: log})
		require.NoError(t, err)
		h, err := sc.Get(ctx, "s1")
		require.NoError(t, err)
		var stdout, stderr bytes.Buffer
		c := &cli{stdout: &stdout, stderr: &stderr}
		code = c.report(c.followTurn(ctx, h, session.Receipt{SessionID: "s1", MessageID: "m1", ExecutionID: "x1"}), false)
		require.NoError(t, ctx.Err(), "it waits for events that never come")
		return stdout.String(), stderr.String(), code
	}
	known := remembering{answer: session.Result{ExecutionID: "x1", MessageID: "m1", Outcome: session.Completed, Result: query.Result}}
	dropped := remembering{err: session.ToTemporal(session.ErrNotFound)}
	for range 2 {
		out, errs, code := follow(known)
		require.Equal(t, "hello\n", out)
		require.Contains(t, errs, "events are past the stream's retention")
		require.Equal(t, exitDone, code)

		_, errs, code = follow(dropped)
		require.Contains(t, errs, "message m1 was answered long ago, and session s1 keeps its last 100 results only")
		require.Contains(t, errs, "hint: sojourn show s1 has the whole conversation")
		require.Equal(t, exitFailed, code)

		emit(t, log, last, event.SessionIdle{}) // the same with something later in the stream
	}
}

// forgetful is a Temporal that retains no session.
type forgetful struct{ client.Client }

func (forgetful) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, nil
}

func (forgetful) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("workflow not found")
}

// A session that only the archive has gets no further events: those who follow it don't wait
// for one.
func TestTailFollowsNoArchivedSession(t *testing.T) {
	t.Parallel()
	all := servers(t)
	log := eventLogOf(t, all)
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-starter-test", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(all.S3(t), http.DefaultTransport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	_, err = a.CreateSession(t.Context(), archive.ListData{ID: "s1", Agent: "claude"})
	require.NoError(t, err)
	for _, flags := range [][]string{nil, {"--tree"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var stdout, stderr bytes.Buffer
		c := &cli{stdout: &stdout, stderr: &stderr, agents: builtin.Registry(), conns: connections{
			options: &client.Options{}, temporal: forgetful{}, log: log, archive: a,
		}}
		cmd := c.tailCommand()
		cmd.SetArgs(append([]string{"s1", "--follow"}, flags...))
		require.NoError(t, cmd.ExecuteContext(ctx), "it waits for events that never come")
		require.Empty(t, stdout.String())
	}
}
