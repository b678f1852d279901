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

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/session"
)

// graveyard is what a reconciliation meets, and what it did.
type graveyard struct {
	dead activities.DeadOutput
	// turn and end are what the sandbox's host answers.
	turn, end error

	abandoned []activities.RunTurnInput
	ended     []activities.EndSandboxInput
	epitaphs  []activities.EpitaphInput
}

var killed = session.Dead{SessionID: "s1", RunID: "r1"}

// reconcile runs the workflow once.
func (g *graveyard) reconcile(t *testing.T) error {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflow(Reconcile)
	for name, f := range map[string]any{
		activities.NameLookAtDead: g.lookAtDead,
		activities.NameRunTurn: func(_ context.Context, in activities.RunTurnInput) (activities.RunTurnOutput, error) {
			g.abandoned = append(g.abandoned, in)
			return activities.RunTurnOutput{}, g.turn
		},
		activities.NameEndSandbox: func(_ context.Context, in activities.EndSandboxInput) (activities.EndSandboxOutput, error) {
			g.ended = append(g.ended, in)
			return activities.EndSandboxOutput{}, g.end
		},
		activities.NameEpitaph: g.epitaph,
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	env.ExecuteWorkflow(Reconcile, killed)
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

func (g *graveyard) lookAtDead(context.Context, session.Dead) (activities.DeadOutput, error) {
	return g.dead, nil
}

func (g *graveyard) epitaph(_ context.Context, in activities.EpitaphInput) error {
	g.epitaphs = append(g.epitaphs, in)
	return nil
}

// inMidTurn is what a session leaves that was terminated while it answered.
func inMidTurn() activities.DeadOutput {
	return activities.DeadOutput{Dead: true, Why: "the session was terminated", Remains: activities.Remains{
		Agent: activities.Agent{Name: "claude", SessionID: "s1"}, Record: session.Record{LastSeq: 40, LastBlockID: "b9"},
		Sandbox: &session.Sandbox{Host: host, ID: "s1-e3", Epoch: 3}, Turn: 7,
		Running: &activities.Owed{ExecutionID: "x4", MessageID: "m4"}, Since: &activities.Running{ExecutionID: "x4", MessageID: "m4", AfterSeq: 31, Anchor: "b5"},
		Waiting: []activities.Owed{{ExecutionID: "x5", MessageID: "m5"}},
	}}
}

func TestReconcileEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	g := graveyard{dead: inMidTurn()}
	require.NoError(t, g.reconcile(t))
	rem := g.dead.Remains
	require.Equal(t, []activities.RunTurnInput{{
		Agent: rem.Agent, Sandbox: *rem.Sandbox, ExecutionID: "x4", Turn: 7, Message: session.Message{ID: "m4"},
		Anchor: "b5", AfterSeq: 31, LastSeq: 40, Abandoned: "the session was terminated",
	}}, g.abandoned)
	require.Equal(t, []activities.EndSandboxInput{{Agent: rem.Agent, Sandbox: *rem.Sandbox, Reason: "terminated", LastSeq: 40}}, g.ended)
	require.Equal(t, []activities.EpitaphInput{{Dead: killed, Why: "the session was terminated", Remains: rem}}, g.epitaphs)
}

// A session that was reopened meanwhile is left alone.
func TestReconcileLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	g := graveyard{}
	require.NoError(t, g.reconcile(t))
	require.Empty(t, g.abandoned)
	require.Empty(t, g.ended)
	require.Empty(t, g.epitaphs)
}

func TestReconcileWithoutASandbox(t *testing.T) {
	t.Parallel()
	g := graveyard{dead: inMidTurn()}
	g.dead.Remains.Sandbox = nil
	require.NoError(t, g.reconcile(t))
	require.Empty(t, g.abandoned)
	require.Empty(t, g.ended)
	require.Len(t, g.epitaphs, 1)
	require.False(t, g.epitaphs[0].Lost, "there was nothing to lose")
}

// Whatever the sandbox's host answers, the dead session gets its epitaph, and it
// says truly whether the sandbox was ended.
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
			g := graveyard{dead: inMidTurn(), turn: c.turn, end: c.end}
			require.NoError(t, g.reconcile(t))
			require.Len(t, g.abandoned, 1)
			require.Len(t, g.ended, c.ends)
			require.Len(t, g.epitaphs, 1)
			require.Equal(t, c.lost, g.epitaphs[0].Lost)
		})
	}
}

// The reconciler begins where its last run says, and says where the next begins.
func TestReconcilerGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	next := start.Add(time.Hour)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	var asked []activities.FindDeadInput
	env.RegisterActivityWithOptions(func(_ context.Context, in activities.FindDeadInput) (activities.FindDeadOutput, error) {
		asked = append(asked, in)
		return activities.FindDeadOutput{Next: next}, nil
	}, activity.RegisterOptions{Name: activities.NameFindDead})
	env.SetLastCompletionResult(start)
	env.ExecuteWorkflow(Reconciler)
	require.NoError(t, env.GetWorkflowError())
	var got time.Time
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, next, got)
	require.Equal(t, []activities.FindDeadInput{{After: start}}, asked)
}
