package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/reconcile"
)

// terminatedHost is what a reconciliation finds, and records what it did.
type terminatedHost struct {
	found contract.DescribeTerminatedOutput
	// turn and end are the host's answers.
	turn, end error

	turns   []contract.RunTurnInput
	ended   []contract.EndSandboxInput
	records []contract.RecordTerminationInput
	closed  []contract.CancelChildrenInput
}

var killed = session.TerminatedRun{SessionID: "s1", RunID: "r1"}

// reconcile runs the workflow once.
func (h *terminatedHost) reconcile(t *testing.T) error {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.RegisterWorkflow(reconcile.Session)
	for name, f := range map[string]any{
		contract.ActivityDescribeTerminated: h.describe,
		contract.ActivityRunTurn: func(_ context.Context, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
			h.turns = append(h.turns, in)
			return contract.RunTurnOutput{}, h.turn
		},
		contract.ActivityEndSandbox: func(_ context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
			h.ended = append(h.ended, in)
			return contract.EndSandboxOutput{}, h.end
		},
		contract.ActivityRecordTermination: h.record,
		contract.ActivityCancelChildren: func(_ context.Context, in contract.CancelChildrenInput) error {
			h.closed = append(h.closed, in)
			return nil
		},
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	env.ExecuteWorkflow(reconcile.Session, killed)
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

func (h *terminatedHost) describe(context.Context, session.TerminatedRun) (contract.DescribeTerminatedOutput, error) {
	return h.found, nil
}

func (h *terminatedHost) record(_ context.Context, in contract.RecordTerminationInput) error {
	h.records = append(h.records, in)
	return nil
}

// inMidTurn returns the state of a session that was terminated while it answered.
func inMidTurn() contract.DescribeTerminatedOutput {
	return contract.DescribeTerminatedOutput{Termination: session.Terminated, State: contract.FinalState{
		Agent: contract.Agent{Name: "claude", SessionID: "s1"}, Record: session.Record{LastSeq: 40, LastBlockID: "b9"},
		Sandbox: &session.Sandbox{Host: host, ID: "s1-e3", Epoch: 3}, Turn: 7,
		Running: &contract.PendingMessage{ExecutionID: "x4", MessageID: "m4"}, Since: &contract.Running{ExecutionID: "x4", MessageID: "m4", AfterSeq: 31, Anchor: "b5"},
		Waiting: []contract.PendingMessage{{ExecutionID: "x5", MessageID: "m5"}},
	}}
}

func TestReconcileEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	h := terminatedHost{found: inMidTurn()}
	require.NoError(t, h.reconcile(t))
	st := h.found.State
	require.Equal(t, []contract.RunTurnInput{{
		Agent: st.Agent, Sandbox: *st.Sandbox, ExecutionID: "x4", Turn: 7, Message: session.Message{ID: "m4"},
		Anchor: "b5", AfterSeq: 31, LastSeq: 40, Terminated: session.Terminated,
	}}, h.turns)
	require.Equal(t, []contract.EndSandboxInput{{Agent: st.Agent, Sandbox: *st.Sandbox, Reason: "terminated", LastSeq: 40}}, h.ended)
	require.Equal(t, []contract.RecordTerminationInput{{Run: killed, Termination: session.Terminated, State: st}}, h.records)
}

// A terminated parent's children are closed by the reconciler.
func TestReconcileClosesTheChildren(t *testing.T) {
	t.Parallel()
	h := terminatedHost{found: inMidTurn()}
	h.found.State.Children = []string{"a", "b"}
	require.NoError(t, h.reconcile(t))
	require.Equal(t, []contract.CancelChildrenInput{{Parent: "s1", Children: []string{"a", "b"}}}, h.closed)
	require.Len(t, h.records, 1)
}

// A session that was reopened meanwhile is left alone.
func TestReconcileLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	h := terminatedHost{}
	require.NoError(t, h.reconcile(t))
	require.Empty(t, h.turns)
	require.Empty(t, h.ended)
	require.Empty(t, h.records)
}

func TestReconcileWithoutASandbox(t *testing.T) {
	t.Parallel()
	h := terminatedHost{found: inMidTurn()}
	h.found.State.Sandbox = nil
	require.NoError(t, h.reconcile(t))
	require.Empty(t, h.turns)
	require.Empty(t, h.ended)
	require.Len(t, h.records, 1)
	require.False(t, h.records[0].HostLost, "nothing was lost")
}

// Whatever the sandbox's host answers, the termination is recorded, with whether the
// sandbox was ended.
func TestReconcileWhateverTheHostAnswers(t *testing.T) {
	t.Parallel()
	gone := func() error { return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil) }
	refused := temporal.NewNonRetryableApplicationError("no", session.TypeFenced, errors.New("no"))
	for name, c := range map[string]struct {
		turn, end error
		ends      int
		lost      bool
	}{
		"gone before the turn": {turn: gone(), ends: 0, lost: true},
		"gone behind the turn": {end: gone(), ends: 1, lost: true},
		"no turn there":        {turn: refused, ends: 1, lost: false},
		"no end there":         {end: refused, ends: 1, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := terminatedHost{found: inMidTurn(), turn: c.turn, end: c.end}
			require.NoError(t, h.reconcile(t))
			require.Len(t, h.turns, 1)
			require.Len(t, h.ended, c.ends)
			require.Len(t, h.records, 1)
			require.Equal(t, c.lost, h.records[0].HostLost)
		})
	}
}

// The reconciler starts where its last run ended, and returns where the next one starts, also
// if it could not look for lost hosts.
func TestReconcilerContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	next := start.Add(time.Hour)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	var asked []contract.ReconcileTerminatedInput
	looked := false
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.ReconcileTerminatedInput) (contract.ReconcileTerminatedOutput, error) {
		asked = append(asked, in)
		return contract.ReconcileTerminatedOutput{Next: next}, nil
	}, activity.RegisterOptions{Name: contract.ActivityReconcileTerminated})
	env.RegisterActivityWithOptions(func(context.Context) error {
		looked = true
		return temporal.NewNonRetryableApplicationError("the index does not answer", "", nil)
	}, activity.RegisterOptions{Name: contract.ActivityEvictLost})
	env.SetLastCompletionResult(start)
	env.ExecuteWorkflow(reconcile.Scheduled)
	require.NoError(t, env.GetWorkflowError())
	var got time.Time
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, next, got)
	require.Equal(t, []contract.ReconcileTerminatedInput{{After: start}}, asked)
	require.True(t, looked)
}
