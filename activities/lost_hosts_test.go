package activities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/session"
)

// away is a Temporal with sessions that have sandboxes, by their host, one for each host.
type away struct {
	client.Client
	// polled returns whether Temporal knows a worker of a host the nth time it is asked, from
	// 1. answers are the hosts that answer all the same.
	polled  func(host string, n int) bool
	asked   map[string]int
	answers map[string]bool
	// now are the present states of the sessions, and refuses why some are not evicted.
	now     map[string]session.Snapshot
	refuses map[string]error
	evicted map[string]session.EvictRequest
}

func (a *away) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	for id := range a.now {
		host, err := converter.GetDefaultDataConverter().ToPayload("of-" + id)
		if err != nil {
			return nil, err
		}
		page.Executions = append(page.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution:        &commonpb.WorkflowExecution{WorkflowId: id},
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{session.AttrHost.GetName(): host}},
		})
	}
	return page, nil
}

func (a *away) DescribeTaskQueue(_ context.Context, queue string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	reply := &workflowservice.DescribeTaskQueueResponse{}
	a.asked[queue]++
	for id := range a.now {
		if host := "of-" + id; queue == session.ControlQueue(host) && a.polled(host, a.asked[queue]) {
			reply.Pollers = []*taskqueuepb.PollerInfo{{}}
		}
	}
	return reply, nil
}

// ExecuteWorkflow asks hosts.
func (a *away) ExecuteWorkflow(_ context.Context, _ client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	var reports []session.HostReport
	for _, host := range args[0].([]string) {
		r := session.HostReport{Host: host}
		if !a.answers[host] {
			r.Error = session.NoWorker
		}
		reports = append(reports, r)
	}
	return reported{reports: reports}, nil
}

type reported struct {
	client.WorkflowRun
	reports []session.HostReport
}

func (r reported) Get(_ context.Context, into any) error {
	*into.(*[]session.HostReport) = r.reports
	return nil
}

func (a *away) QueryWorkflow(_ context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
	p, err := converter.GetDefaultDataConverter().ToPayloads(a.now[id])
	return client.NewValue(p), err
}

func (a *away) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if err := a.refuses[o.WorkflowID]; err != nil {
		return nil, session.ToTemporal(err)
	}
	a.evicted[o.WorkflowID] = o.Args[0].(session.EvictRequest)
	return accepted{}, nil
}

type accepted struct{ client.WorkflowUpdateHandle }

func (accepted) Get(context.Context, any) error { return nil }

// TestEvictLost: only sessions of hosts whose worker is away twice, and which do not answer,
// are evicted, and only from those hosts.
func TestEvictLost(t *testing.T) {
	t.Parallel()
	on := func(host string) session.Snapshot {
		return session.Snapshot{Sandbox: &session.Sandbox{Host: host, ID: "sandbox-on-" + host}}
	}
	lost := session.EvictRequest{SandboxID: "sandbox-on-of-s1", Reason: session.EvictUnhealthy}
	never := func(string, int) bool { return false }
	for name, c := range map[string]struct {
		away
		evicted map[string]session.EvictRequest
		waits   bool
		err     string
	}{
		"no session has a sandbox":       {away: away{polled: never}},
		"its worker is there":            {away: away{now: map[string]session.Snapshot{"s1": on("of-s1")}, polled: func(string, int) bool { return true }}},
		"its worker is back":             {away: away{now: map[string]session.Snapshot{"s1": on("of-s1")}, polled: func(_ string, n int) bool { return n > 1 }}, waits: true},
		"Temporal does not know of it":   {away: away{now: map[string]session.Snapshot{"s1": on("of-s1")}, polled: never, answers: map[string]bool{"of-s1": true}}, waits: true},
		"it is lost":                     {away: away{now: map[string]session.Snapshot{"s1": on("of-s1")}, polled: never}, waits: true, evicted: map[string]session.EvictRequest{"s1": lost}},
		"its session has moved":          {away: away{now: map[string]session.Snapshot{"s1": on("another")}, polled: never}, waits: true},
		"its session has no sandbox now": {away: away{now: map[string]session.Snapshot{"s1": {}}, polled: never}, waits: true},
		"its session is at work":         {away: away{now: map[string]session.Snapshot{"s1": on("of-s1")}, polled: never, refuses: map[string]error{"s1": session.ErrBusy}}, waits: true},
		"one of two is lost": {
			away: away{now: map[string]session.Snapshot{"s1": on("of-s1"), "s2": on("of-s2")}, polled: func(host string, _ int) bool { return host == "of-s2" }}, waits: true,
			evicted: map[string]session.EvictRequest{"s1": lost},
		},
		"one of two can't be evicted": {
			away: away{now: map[string]session.Snapshot{"s1": on("of-s1"), "s2": on("of-s2")}, polled: never, refuses: map[string]error{"s2": errors.New("its worker is too old")}}, waits: true,
			evicted: map[string]session.EvictRequest{"s1": lost}, err: "its worker is too old",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, began := c.away, time.Now()
				a.asked, a.evicted = map[string]int{}, map[string]session.EvictRequest{}
				err := (&Reconciler{Temporal: &a}).EvictLost(t.Context())
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.err)
				}
				require.Equal(t, c.waits, time.Since(began) >= lookAgain)
				if c.evicted == nil {
					c.evicted = map[string]session.EvictRequest{}
				}
				require.Equal(t, c.evicted, a.evicted)
			})
		})
	}
}
