package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// guardedSession is the workflow id in the SDK's test environment.
const guardedSession = "default-test-workflow-id"

// guarded runs an empty activity behind the guard, and reports whether it ran.
func guarded[I any](t *testing.T, log *stream.Log, in I) (ran bool, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(nothing{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{ResetGuard(log)}})
	do := func(context.Context, I) error { ran = true; return nil }
	env.RegisterActivity(do)
	_, err = env.ExecuteActivity(do, in)
	return ran, err
}

func emitted(t *testing.T, log *stream.Log, events ...event.Payload) uint64 {
	t.Helper()
	var all []event.Event
	for _, p := range events {
		all = append(all, fromServer(p))
	}
	last, err := log.Emit(t.Context(), guardedSession, stream.Emission{Fence: stream.Fence{Epoch: 1}, Key: "k", Events: all})
	require.NoError(t, err)
	return last
}

// Every activity that writes for a run is refused, before it does anything, if the run was
// reset and its stream has more than it knows.
func TestAResetRunIsRefusedWhatItsStreamDecided(t *testing.T) {
	t.Parallel()
	log, _ := fresh(t)
	last := emitted(t, log, event.SessionInitialized{}, event.EEReady{}, event.SessionInitialized{})
	for name, run := range map[string]func(after uint64, reset bool) (bool, error){
		"begin": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.BeginInput{Session: session.Input{LastSeq: after}, Reset: reset})
		},
		"create": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.CreateSandboxInput{LastSeq: after, Reset: reset})
		},
		"turn": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.RunTurnInput{LastSeq: after, Reset: reset})
		},
		"emit": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.EmitInput{LastSeq: after, Reset: reset})
		},
		"end": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.EndSandboxInput{LastSeq: after, Reset: reset})
		},
		"finish": func(after uint64, reset bool) (bool, error) {
			return guarded(t, log, contract.FinishInput{Record: session.Record{LastSeq: after}, Reset: reset})
		},
	} {
		ran, err := run(1, true)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		require.Equal(t, session.TypeFenced, app.Type(), name)
		require.True(t, app.NonRetryable(), name)
		require.False(t, ran, name)

		for _, c := range []struct {
			after uint64
			reset bool
		}{{1, false}, {last - 1, true}} {
			ran, err = run(c.after, c.reset)
			require.NoError(t, err, name)
			require.True(t, ran, "%s: a run that was not reset, or that has all decisive events", name)
		}
	}
}

// What an earlier attempt of the same activity wrote is no reason to refuse it.
func TestARepeatedActivityOfAResetRunIsDone(t *testing.T) {
	t.Parallel()
	sandbox := session.Sandbox{ID: "s-e1"}
	for name, c := range map[string]struct {
		wrote event.Payload
		run   func(*stream.Log) (bool, error)
	}{
		"turn": {event.QueryStarted{}, func(log *stream.Log) (bool, error) { return guarded(t, log, contract.RunTurnInput{Reset: true}) }},
		"end": {event.EETerminated{Environment: sandbox.Environment("terminated")}, func(log *stream.Log) (bool, error) {
			return guarded(t, log, contract.EndSandboxInput{Sandbox: sandbox, Reset: true})
		}},
		"finish": {event.SessionClosed{}, func(log *stream.Log) (bool, error) { return guarded(t, log, contract.FinishInput{Reset: true}) }},
	} {
		log, _ := fresh(t)
		emitted(t, log, c.wrote)
		ran, err := c.run(log)
		require.NoError(t, err, name)
		require.True(t, ran, name)
		ran, err = guarded(t, log, contract.CreateSandboxInput{Reset: true})
		require.Error(t, err, "%s: any other activity is refused", name)
		require.False(t, ran)
	}
}

// triedAgain runs an activity behind the guard whose first attempt appends an event and then
// fails, and reports whether the second one ran.
func triedAgain[I any](t *testing.T, log *stream.Log, wrote event.Payload, in I) (ran bool, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(nothing{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{ResetGuard(log)}})
	do := func(ctx context.Context, _ I) error {
		if ran = activity.GetInfo(ctx).Attempt > 1; !ran {
			emitted(t, log, wrote)
			return errors.New("the archive is away")
		}
		return nil
	}
	env.RegisterActivity(do)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, do, in).Get(ctx, nil)
	})
	return ran, env.GetWorkflowError()
}

// An activity that is tried again is refused nothing that its own attempt before decided: the
// rest of what it does is still to be done. What another one decided meanwhile refuses it.
func TestARepeatedEndOfAResetRunIsDone(t *testing.T) {
	t.Parallel()
	query := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
	folded := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2", "m3"}}
	other := event.Query{ExecutionID: "x2", MessageIDs: []string{"m3"}} // the reset run gave the id again
	gone := event.EETerminated{Environment: event.Environment{SandboxID: "s-e1"}}
	emit := contract.EmitInput{Reset: true, Events: []event.Event{fromServer(event.QueryFailed{Query: query}), fromServer(gone)}}
	turn := contract.RunTurnInput{Reset: true, ExecutionID: "x2", Message: session.Message{ID: "m2"}}
	emits := func(log *stream.Log, wrote event.Payload) (bool, error) { return triedAgain(t, log, wrote, emit) }
	turns := func(log *stream.Log, wrote event.Payload) (bool, error) { return triedAgain(t, log, wrote, turn) }
	for name, c := range map[string]struct {
		wrote event.Payload
		run   func(*stream.Log, event.Payload) (bool, error)
		done  bool
	}{
		"emit":                       {event.QueryFailed{Query: query}, emits, true},
		"emit, of folded messages":   {event.QueryFailed{Query: folded}, emits, true},
		"emit, of a sandbox":         {gone, emits, true},
		"emit, answered meanwhile":   {event.QueryCompleted{Query: query}, emits, false},
		"emit, of another sandbox":   {event.EETerminated{}, emits, false},
		"turn":                       {event.QueryCompleted{Query: folded}, turns, true},
		"turn, of another message":   {event.QueryCompleted{Query: other}, turns, false},
		"turn, with a closed stream": {event.SessionClosed{}, turns, false},
	} {
		log, _ := fresh(t)
		ran, err := c.run(log, c.wrote)
		require.Equal(t, c.done, ran, name)
		require.Equal(t, c.done, err == nil, name)
		_, err = guarded(t, log, turn)
		require.Error(t, err, "%s: it is no repeat in a first attempt", name)
		_, err = guarded(t, log, emit)
		require.Error(t, err, "%s: it is no repeat in a first attempt", name)
	}
}
