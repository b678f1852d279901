package session

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sojourn-run/sojourn/event"
)

func TestListQuery(t *testing.T) {
	t.Parallel()
	ours := "WorkflowType = 'SojournSession' AND ExecutionStatus != 'ContinuedAsNew'"
	for want, o := range map[string]ListOptions{
		ours + " AND SojournParent IS NULL": {},
		ours:                                {Children: true},
		ours + " AND SojournParent IS NULL AND (SojournAgent = 'claude' OR SojournTurns > 3)": {Query: "SojournAgent = 'claude' OR SojournTurns > 3"},
	} {
		require.Equal(t, want, listQuery(o))
	}
}

func TestPageTokens(t *testing.T) {
	t.Parallel()
	for _, token := range []pageToken{{}, {Temporal: []byte{0, 255, 7}}, {Archive: "markers/after", InS3: true}} {
		text, err := token.encode()
		require.NoError(t, err)
		back, err := decodeToken(text)
		require.NoError(t, err)
		require.Equal(t, token, back)
	}
	first, err := decodeToken("")
	require.NoError(t, err)
	require.Equal(t, pageToken{}, first)
	for _, bad := range []string{"%", "abc=", base64.RawURLEncoding.EncodeToString([]byte("no JSON")), base64.RawURLEncoding.EncodeToString([]byte(`[1]`))} {
		_, err := decodeToken(bad)
		refuses(t, "pageToken", err)
	}
}

func TestPageSize(t *testing.T) {
	t.Parallel()
	c := newClient(t, &fakeTemporal{})
	for _, size := range []int{-1, 1001} {
		_, err := c.List(context.Background(), ListOptions{PageSize: size})
		refuses(t, "pageSize", err)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	began, ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{
		"SojournTitle": "a title", "SojournAgent": "claude", "SojournProfile": "p", "SojournStatus": "running", "SojournHost": "h1",
		"SojournParent": "root", "SojournTags": []string{"a", "b"}, "SojournTurns": 7, "SojournCostUSD": 1.5, "SojournLastActivity": ended,
		"SomebodyElses": "attribute",
	})
	info.StartTime = timestamppb.New(began)
	got, err := summary(&described{WorkflowExecutionInfo: info})
	require.NoError(t, err)
	require.Equal(t, Summary{
		SessionID: "s1", Title: "a title", Agent: "claude", Profile: "p", Status: StatusRunning, Host: "h1", Parent: "root",
		Tags: []string{"a", "b"}, Turns: 7, CostUSD: new(1.5), CreatedAt: began, LastActivity: ended,
		Runtime: event.Runtime{IsLoaded: true, Sandbox: &event.Environment{Host: "h1"}},
	}, got)
}

// A session's newest run may have started long after the session was created.
func TestSummaryHasTheSessionsCreation(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	f := &fakeTemporal{}
	_, err := newClient(t, f).start(t.Context(), Input{SessionID: "s1", CreatedAt: created})
	require.NoError(t, err)
	memo, err := converter.GetDefaultDataConverter().ToPayload(f.startAs.Memo[memoCreatedAt])
	require.NoError(t, err)
	started := created.Add(time.Hour)
	info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil)
	info.StartTime = timestamppb.New(started)
	hidden := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}, Data: []byte("?")}
	for payload, want := range map[*commonpb.Payload]time.Time{memo: created, hidden: started, nil: started} {
		info.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoCreatedAt: payload}}
		s, err := summary(&described{WorkflowExecutionInfo: info})
		require.NoError(t, err)
		require.Equal(t, want, s.CreatedAt)
	}
}

// A terminated workflow had no chance to report that it is closed.
func TestSummaryOfAnEndedSession(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, map[string]any{"SojournStatus": "running"})
	info.CloseTime = timestamppb.New(ended)
	got, err := summary(&described{WorkflowExecutionInfo: info})
	require.NoError(t, err)
	require.Equal(t, StatusClosed, got.Status)
	require.Equal(t, ended, got.ClosedAt)
}

// A paused session waits for its limit, whatever else is tried again.
func TestSummaryNamesTheLimit(t *testing.T) {
	t.Parallel()
	retried := []*workflowpb.PendingActivityInfo{{
		ActivityType: &commonpb.ActivityType{Name: "EndSandbox"}, State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, LastFailure: &failurepb.Failure{Message: "the archive is away"},
	}}
	for status, want := range map[Status]string{StatusPaused: "the limit of 3 turns is reached", StatusIdle: "the archive is away"} {
		info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{"SojournStatus": string(status), "SojournLimit": "the limit of 3 turns is reached"})
		got, err := summary(&described{WorkflowExecutionInfo: info, PendingActivities: retried})
		require.NoError(t, err)
		require.Equal(t, want, got.WaitsFor)
	}
}

func TestSummaryNamesABadAttribute(t *testing.T) {
	t.Parallel()
	_, err := summary(&described{WorkflowExecutionInfo: execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{"SojournTurns": "many"})})
	require.ErrorContains(t, err, "session s1")
	require.ErrorContains(t, err, "SojournTurns")
}

func TestListPages(t *testing.T) {
	t.Parallel()
	var asked []*workflowservice.ListWorkflowExecutionsRequest
	c := newClient(t, &fakeTemporal{list: func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		reply := &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
			execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil),
		}}
		if strings.HasPrefix(r.GetQuery(), "WorkflowId IN") {
			return reply, nil // which runs are the latest
		}
		if asked = append(asked, r); len(asked) == 1 {
			reply.NextPageToken = []byte("more")
		}
		return reply, nil
	}})
	first, err := c.List(context.Background(), ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "s1", first.Sessions[0].SessionID)
	require.NotEmpty(t, first.Next)
	second, err := c.List(context.Background(), ListOptions{PageToken: first.Next, PageSize: 7})
	require.NoError(t, err)
	require.Empty(t, second.Next, "with no archive Temporal's last page is the last")
	require.Equal(t, int32(50), asked[0].GetPageSize())
	require.Equal(t, int32(7), asked[1].GetPageSize())
	require.Equal(t, []byte("more"), asked[1].GetNextPageToken())
}

// A workflow of this type may be started by hand under an id that is not a session's; the
// list works nevertheless.
func TestListPassesOverWhatIsNoSession(t *testing.T) {
	t.Parallel()
	var queries []string
	c := newClient(t, &fakeTemporal{list: func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		queries = append(queries, r.GetQuery())
		found := []*workflowpb.WorkflowExecutionInfo{execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil)}
		if len(queries) == 1 {
			found = append(found, execution(t, "it's no id", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, nil))
		}
		return &workflowservice.ListWorkflowExecutionsResponse{Executions: found}, nil
	}})
	page, err := c.List(context.Background(), ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	require.Equal(t, "s1", page.Sessions[0].SessionID)
	require.Equal(t, "WorkflowId IN ('s1')", queries[1])
}

// A session that continues as new is on the list as it is, though Temporal's index still has
// its run before, in each of the two answers or in the first.
func TestListWhileASessionContinuesAsNew(t *testing.T) {
	t.Parallel()
	working := func(run, status string) *workflowpb.WorkflowExecutionInfo {
		info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{"SojournStatus": status})
		info.Execution.RunId = run
		return info
	}
	for name, c := range map[string]struct {
		listed, latest []*workflowpb.WorkflowExecutionInfo
	}{
		"both late":  {[]*workflowpb.WorkflowExecutionInfo{working("run1", "running")}, []*workflowpb.WorkflowExecutionInfo{working("run1", "running")}},
		"first late": {[]*workflowpb.WorkflowExecutionInfo{working("run1", "running")}, []*workflowpb.WorkflowExecutionInfo{working("run2", "running")}},
		"idle":       {[]*workflowpb.WorkflowExecutionInfo{working("run1", "idle")}, []*workflowpb.WorkflowExecutionInfo{working("run2", "idle")}},
		"two runs": {
			[]*workflowpb.WorkflowExecutionInfo{working("run2", "running"), working("run1", "running")},
			[]*workflowpb.WorkflowExecutionInfo{working("run2", "running")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			continued := working("run1", "running")
			continued.Status, continued.CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, timestamppb.Now()
			f := &fakeTemporal{
				known:   map[string]*workflowpb.WorkflowExecutionInfo{"s1": working("run2", "running")},
				earlier: map[string]*workflowpb.WorkflowExecutionInfo{"run1": continued},
			}
			f.list = func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
				if strings.HasPrefix(r.GetQuery(), "WorkflowId IN") {
					return &workflowservice.ListWorkflowExecutionsResponse{Executions: c.latest}, nil
				}
				return &workflowservice.ListWorkflowExecutionsResponse{Executions: c.listed}, nil
			}
			page, err := newClient(t, f).List(t.Context(), ListOptions{})
			require.NoError(t, err)
			require.Len(t, page.Sessions, 1)
			require.Equal(t, StatusRunning, page.Sessions[0].Status)
		})
	}
}

// Temporal's index may be behind by a whole turn: it has an idle session that has failed since.
func TestListIsNotBehindByATurn(t *testing.T) {
	t.Parallel()
	idle := func(attributes map[string]any) *workflowpb.WorkflowExecutionInfo {
		attributes["SojournStatus"] = "idle"
		return execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, attributes)
	}
	f := &fakeTemporal{known: map[string]*workflowpb.WorkflowExecutionInfo{"s1": idle(map[string]any{"SojournOutcome": "failed", "SojournTurns": 1})}}
	f.list = func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{idle(map[string]any{})}}, nil
	}
	page, err := newClient(t, f).List(t.Context(), ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	require.Equal(t, Failed, page.Sessions[0].Outcome)
	require.Equal(t, int64(1), page.Sessions[0].Turns)
}

// The list shows of a running session that its turn waits for a slot, or for a retry; what is
// being tried now keeps no turn from running.
func TestListTellsWhatKeepsATurnFromRunning(t *testing.T) {
	t.Parallel()
	scheduled, started := enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, enumspb.PENDING_ACTIVITY_STATE_STARTED
	for name, c := range map[string]struct {
		activity string
		state    enumspb.PendingActivityState
		failure  string
		want     string
	}{
		"no slot":      {activityCreateSandbox, scheduled, "", "waiting for a free slot on a host"},
		"being made":   {activityCreateSandbox, started, "", ""},
		"at work":      {activityRunTurn, started, "", ""},
		"again":        {activityRunTurn, scheduled, "the stream is away", "the stream is away"},
		"at it again":  {activityRunTurn, started, "the stream was away", ""},
		"no worker":    {activityRunTurn, scheduled, "", "waiting for the worker of the sandbox's host"},
		"a short task": {"Emit", scheduled, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{"SojournStatus": "running"})
			a := &workflowpb.PendingActivityInfo{ActivityType: &commonpb.ActivityType{Name: c.activity}, State: c.state}
			if c.failure != "" {
				a.LastFailure = &failurepb.Failure{Message: c.failure}
			}
			f := &fakeTemporal{known: map[string]*workflowpb.WorkflowExecutionInfo{"s1": info}, pending: []*workflowpb.PendingActivityInfo{a}}
			f.list = func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
				return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{info}}, nil
			}
			page, err := newClient(t, f).List(t.Context(), ListOptions{})
			require.NoError(t, err)
			require.Len(t, page.Sessions, 1)
			require.Equal(t, StatusRunning, page.Sessions[0].Status, "filters find it as before")
			require.Equal(t, c.want, page.Sessions[0].WaitsFor)
		})
	}
}

func TestListWithoutTemporal(t *testing.T) {
	t.Parallel()
	c := newClient(t, &fakeTemporal{list: func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return nil, unreachable
	}})
	_, err := c.List(context.Background(), ListOptions{})
	require.ErrorIs(t, err, ErrUnavailable)
	require.True(t, errors.Is(err, unreachable))
}

func execution(t *testing.T, id string, status enumspb.WorkflowExecutionStatus, attributes map[string]any) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	fields := map[string]*commonpb.Payload{}
	for name, v := range attributes {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		require.NoError(t, err)
		fields[name] = p
	}
	return &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run-of-" + id}, FirstRunId: "first-of-" + id, Status: status,
		Type:             &commonpb.WorkflowType{Name: WorkflowType},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	}
}
