package session

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters/builtin"
)

var unreachable = serviceerror.NewUnavailable("connection refused")

// fakeTemporal answers what a test scripts and panics on everything else.
type fakeTemporal struct {
	client.Client
	// known are the sessions that Temporal has.
	known map[string]*workflowpb.WorkflowExecutionInfo
	// pending are the activities of each of them.
	pending []*workflowpb.PendingActivityInfo
	// earlier are the runs before those, by run id.
	earlier map[string]*workflowpb.WorkflowExecutionInfo
	started []Input
	// starting is called before a workflow starts, if it is set.
	starting func() error
	startAs  client.StartWorkflowOptions
	list     func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	update   func(client.UpdateWorkflowOptions) error
	updates  []client.UpdateWorkflowOptions
	query    error
	// answer answers queries, if it is set; asked is the query's name.
	answer func() (any, error)
	asked  string
	// late is how many queries get no answer in time; queries counts all. lateBy is what
	// Temporal says of them.
	late, queries int
	lateBy        error
	takes         time.Duration
	signals       []string
	fails         error
}

func (f *fakeTemporal) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	info, ok := f.known[id]
	if earlier := f.earlier[run]; earlier != nil {
		info = earlier
	}
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info, PendingActivities: f.pending}, nil
}

func (f *fakeTemporal) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	if f.starting != nil {
		if err := f.starting(); err != nil {
			return nil, err
		}
	}
	in, _ := args[0].(Input)
	f.started, f.startAs = append(f.started, in), o
	return fakeRun{id: o.ID}, nil
}

func (f *fakeTemporal) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return f.list(r)
}

func (f *fakeTemporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	f.updates = append(f.updates, o)
	return fakeUpdate{err: f.update(o)}, nil
}

func (f *fakeTemporal) QueryWorkflow(ctx context.Context, _, _, name string, _ ...any) (converter.EncodedValue, error) {
	f.asked = name
	if f.queries++; f.queries <= f.late {
		select {
		case <-time.After(f.takes):
		case <-ctx.Done():
		}
		return nil, f.lateBy
	}
	if f.answer == nil {
		return nil, f.query
	}
	v, err := f.answer()
	return fakeValue{v: v}, err
}

type fakeValue struct{ v any }

func (v fakeValue) HasValue() bool { return v.v != nil }

func (v fakeValue) Get(out any) error {
	data, err := json.Marshal(v.v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

func (f *fakeTemporal) SignalWorkflow(_ context.Context, _, _, name string, _ any) error {
	f.signals = append(f.signals, name)
	return nil
}

func (f *fakeTemporal) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	return fakeRun{id: id}
}

type fakeRun struct {
	client.WorkflowRun
	id string
}

func (r fakeRun) GetRunID() string               { return "first-of-" + r.id }
func (r fakeRun) Get(context.Context, any) error { return nil }

type fakeUpdate struct {
	client.WorkflowUpdateHandle
	err error
}

func (u fakeUpdate) Get(context.Context, any) error { return u.err }

func newClient(t *testing.T, f *fakeTemporal) *Client {
	t.Helper()
	c, err := NewClient(ClientOptions{Temporal: f, Agents: builtin.Registry()})
	require.NoError(t, err)
	return c
}

// knowing returns a Temporal with one session.
func knowing(t *testing.T, status enumspb.WorkflowExecutionStatus) *fakeTemporal {
	return &fakeTemporal{known: map[string]*workflowpb.WorkflowExecutionInfo{"s1": execution(t, "s1", status, nil)}}
}

func TestNewClientWantsItsParts(t *testing.T) {
	t.Parallel()
	_, err := NewClient(ClientOptions{Agents: builtin.Registry()})
	refuses(t, "Temporal", err)
	_, err = NewClient(ClientOptions{Temporal: &fakeTemporal{}})
	refuses(t, "Agents", err)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{}
	h, err := newClient(t, f).Create(context.Background(), "", Options{Agent: "claude", Title: "a title"})
	require.NoError(t, err)
	require.NoError(t, ValidateID("id", h.ID()))
	require.Len(t, f.started, 1)
	require.Equal(t, h.ID(), f.started[0].SessionID)
	require.Equal(t, h.ID(), f.startAs.ID)
	require.Equal(t, TaskQueue, f.startAs.TaskQueue)
	require.Equal(t, "a title", f.startAs.StaticSummary)
	status, ok := f.startAs.TypedSearchAttributes.GetKeyword(AttrStatus)
	require.True(t, ok)
	require.Equal(t, string(StatusIdle), status)
}

// Bad input leaves no trace of a half-created session.
func TestCreateRefusesBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	c, err := NewClient(ClientOptions{
		Temporal: f, Agents: builtin.Registry(),
		Profile: func(context.Context, string) error { return Invalid("profile", "is unknown", "one that stands") },
	})
	require.NoError(t, err)
	ctx := context.Background()
	for field, try := range map[string]struct {
		id string
		o  Options
	}{
		"id":         {"not an id", Options{Agent: "claude"}},
		"agent":      {"s2", Options{Agent: "nobody"}},
		"permission": {"s2", Options{Agent: "claude", Permission: "maybe"}},
		"profile":    {"s2", Options{Agent: "claude", Profile: "missing"}},
	} {
		_, err := c.Create(ctx, try.id, try.o)
		refuses(t, field, err)
	}
	_, err = c.Create(ctx, "s1", Options{Agent: "claude"})
	require.ErrorIs(t, err, ErrExists)
	require.Empty(t, f.started)
}

func TestOpenAttachesToWhatIsOpen(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	c := newClient(t, f)
	h, err := c.Open(context.Background(), "s1", Options{Agent: "claude"})
	require.NoError(t, err)
	require.Equal(t, "s1", h.ID())
	require.Empty(t, f.started)
	_, err = c.Open(context.Background(), "s2", Options{Agent: "claude"})
	require.NoError(t, err)
	require.Len(t, f.started, 1)
}

// Of two processes that open a session at once, the slower attaches to it.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	other := f.known
	f.known = nil
	f.starting = func() error {
		f.known = other
		return serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "")
	}
	h, err := newClient(t, f).Open(t.Context(), "s1", Options{Agent: "claude"})
	require.NoError(t, err)
	require.Equal(t, "first-of-s1", h.first)

	f.known, f.starting = nil, func() error { return serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "") }
	_, err = newClient(t, f).Open(t.Context(), "s1", Options{Agent: "claude"})
	require.ErrorIs(t, err, ErrExists, "it is not there")

	_, err = newClient(t, f).Create(t.Context(), "s1", Options{Agent: "claude"})
	require.ErrorIs(t, err, ErrExists)
}

func TestGetOfNothing(t *testing.T) {
	t.Parallel()
	_, err := newClient(t, &fakeTemporal{}).Get(context.Background(), "s1")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = newClient(t, &fakeTemporal{fails: unreachable}).Get(context.Background(), "s1")
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestAHandleNamesItsErrors(t *testing.T) {
	t.Parallel()
	running, ended := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	missing := serviceerror.NewNotFound("workflow execution already completed")
	for name, c := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		answer error
		want   error
	}{
		"busy":         {running, across(ToTemporal(ErrBusy)), ErrBusy},
		"closing":      {running, across(ToTemporal(ErrClosed)), ErrClosed},
		"closed":       {ended, missing, ErrClosed},
		"closed first": {ended, temporal.NewApplicationError("too late", "AcceptedUpdateCompletedWorkflow"), ErrClosed},
		"unreachable":  {running, unreachable, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := knowing(t, c.status)
			f.update = func(client.UpdateWorkflowOptions) error { return c.answer }
			h, err := newClient(t, f).Get(context.Background(), "s1")
			require.NoError(t, err)
			_, err = h.Send(context.Background(), Message{Text: "hello"})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "s1")
		})
	}
}

func TestAnUpdateGoesToItsOwnLife(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.update = func(client.UpdateWorkflowOptions) error { return nil }
	h, err := newClient(t, f).Get(context.Background(), "s1")
	require.NoError(t, err)
	_, err = h.Send(context.Background(), Message{ID: "m1", Text: "hello"})
	require.NoError(t, err)
	require.Equal(t, "first-of-s1", f.updates[0].FirstExecutionRunID)
	require.Equal(t, sendID(Message{ID: "m1", Text: f.updates[0].Args[0].(Message).Text}), f.updates[0].UpdateID, "a repeat of a send is the same update")
	_, err = h.Send(context.Background(), Message{Text: " "})
	refuses(t, "message.text", err)
	require.Len(t, f.updates, 1)
}

// The end of a caller's context is an error of package context, whatever Temporal's client makes
// of it; what is late by itself is not.
func TestTheEndOfAContext(t *testing.T) {
	t.Parallel()
	late := client.NewWorkflowUpdateServiceTimeoutOrCanceledError(serviceerror.NewDeadlineExceeded("late"))
	gone := client.NewWorkflowUpdateServiceTimeoutOrCanceledError(serviceerror.NewCanceled("gone"))
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx         context.Context
		err, want   error
		unavailable bool
	}{
		"its deadline": {past, late, context.DeadlineExceeded, true},
		"canceled":     {canceled, gone, context.Canceled, false},
		"only late":    {t.Context(), late, nil, true},
	} {
		f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		f.update = func(client.UpdateWorkflowOptions) error { return c.err }
		h, err := newClient(t, f).Get(t.Context(), "s1")
		require.NoError(t, err)
		_, err = h.Send(c.ctx, Message{Text: "hello"})
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, c.unavailable, errors.Is(err, ErrUnavailable), name)
		for _, of := range []error{context.DeadlineExceeded, context.Canceled} {
			require.Equal(t, of == c.want, errors.Is(err, of), "%s: %s", name, of)
		}
	}
}

// A signal would reach the next incarnation of a reopened session; the handle
// refuses it.
func TestQueueOnAClosedSession(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	h, err := newClient(t, f).Get(context.Background(), "s1")
	require.NoError(t, err)
	require.NoError(t, h.Queue(context.Background(), Message{Text: "one"}))
	f.known["s1"].FirstRunId = "another life"
	require.ErrorIs(t, h.Queue(context.Background(), Message{Text: "two"}), ErrClosed)
	require.Equal(t, []string{SignalQueue}, f.signals)
}

func TestCloseOfAClosedSessionSucceeds(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	f.update = func(client.UpdateWorkflowOptions) error { return serviceerror.NewNotFound("completed") }
	h, err := newClient(t, f).Get(context.Background(), "s1")
	require.NoError(t, err)
	require.NoError(t, h.Close(context.Background()))
}

func TestPartsThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	c := newClient(t, knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
	ctx := context.Background()
	_, err := c.Show(ctx, "s1", FromAuto)
	require.ErrorContains(t, err, "no archive is configured")
	_, err = c.Open(ctx, "s1", Options{Agent: "claude"})
	require.ErrorContains(t, err, "no archive is configured")
	for _, err := range c.Events(ctx, "s1", 0, Follow) {
		require.ErrorContains(t, err, "no stream is configured")
	}
	_, err = c.Show(ctx, "not an id", FromAuto)
	refuses(t, "id", err)
}

func TestSpawnOfAnUnknownAgent(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.update = func(client.UpdateWorkflowOptions) error { return errors.New("must not be asked") }
	h, err := newClient(t, f).Get(context.Background(), "s1")
	require.NoError(t, err)
	_, err = h.Spawn(context.Background(), SpawnRequest{Options: Options{Agent: "nobody"}, Message: Message{Text: "a"}})
	refuses(t, "agent", err)
	require.Empty(t, f.updates)
}

// Temporal refuses a query at once when it has seen no worker for a while.
func TestQueryWithoutAPoller(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.query = serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")
	h, err := newClient(t, f).Get(t.Context(), "s1")
	require.NoError(t, err)
	_, err = h.Inspect(t.Context())
	require.ErrorIs(t, err, ErrNoWorker)
	require.NotContains(t, err.Error(), "poller")
}

// A query that was not answered in time is repeated: as long as its caller has time, or for half a
// minute, in which a worker that was killed is there again.
func TestLateQueryIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]error{
		"late":              serviceerror.NewDeadlineExceeded("late"),
		"ended by Temporal": serviceerror.NewUnavailable("the server ends a query that nothing answers"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				busy := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
				busy.lateBy, busy.takes, busy.query = by, 11*time.Second, errors.New("answered")
				h, err := newClient(t, busy).Get(t.Context(), "s1")
				require.NoError(t, err)
				asked := func(ctx context.Context, late int) error {
					busy.late, busy.queries = late, 0
					_, err := h.Inspect(ctx)
					return err
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorContains(t, asked(ctx, 5), "answered")
				require.Equal(t, 6, busy.queries)
				require.ErrorIs(t, asked(ctx, 5), ErrNoWorker, "the caller's minute is over")

				require.ErrorContains(t, asked(t.Context(), 2), "answered")
				require.ErrorIs(t, asked(t.Context(), 100), ErrNoWorker)
				require.Equal(t, 3, busy.queries, "without a deadline it has half a minute")

				busy.fails = serviceerror.NewUnavailable("no connection")
				err = asked(t.Context(), 100)
				require.ErrorIs(t, err, ErrUnavailable)
				require.NotErrorIs(t, err, ErrNoWorker)
			})
		})
	}
}

// A Temporal that is away is told at once, whatever time the caller has.
func TestTemporalIsAwayFromAQuery(t *testing.T) {
	t.Parallel()
	away := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	away.late, away.lateBy = 2, serviceerror.NewUnavailable("no connection")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := newClient(t, away).Get(ctx, "s1")
	require.NoError(t, err)
	away.fails = serviceerror.NewUnavailable("no connection")
	_, err = h.Inspect(ctx)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, 1, away.queries)
}
