package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// jobTest runs a job beside a session that answers with the given texts, one to each
// message, until it is closed.
type jobTest struct {
	*testsuite.TestWorkflowEnvironment
	began session.Input
	asked []session.Message
}

func newJobTest(t *testing.T, answers ...Answer) *jobTest {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	j := &jobTest{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	// A busy machine is no deadlock, and the environment waits three seconds by default.
	j.SetTestTimeout(time.Minute)
	j.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	j.RegisterWorkflowWithOptions(j.session, workflow.RegisterOptions{Name: session.WorkflowType})
	j.RegisterActivityWithOptions(func(_ context.Context, in AwaitAnswerInput) (Answer, error) {
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}, activity.RegisterOptions{Name: ActivityAwaitAnswer})
	j.RegisterActivityWithOptions(func(context.Context, ArtifactsInput) ([]Artifact, error) {
		return []Artifact{{Path: "report.md", Size: 2}}, nil
	}, activity.RegisterOptions{Name: ActivityArtifacts})
	j.RegisterActivityWithOptions(func(context.Context, PutFilesInput) error { return nil }, activity.RegisterOptions{Name: ActivityPutFiles})
	return j
}

func (j *jobTest) session(ctx workflow.Context, in session.Input) (session.Output, error) {
	j.began = in
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		for {
			var m session.Message
			workflow.GetSignalChannel(ctx, session.SignalMessage).Receive(ctx, &m)
			j.asked = append(j.asked, m)
		}
	})
	ctx.Done().Receive(ctx, nil)
	cost := 0.5
	return session.Output{Turns: 1 + len(j.asked), Usage: event.Usage{InputTokens: 7}, CostUSD: &cost}, nil
}

func completed(text string) Answer {
	return Answer{Result: session.Result{Outcome: session.Completed, Result: &event.QueryResult{Response: text}}}
}

func mismatched(text, why string) Answer {
	a := completed(text)
	a.Mismatch = why
	return a
}

func (j *jobTest) run(t *testing.T, in Input) (Result, error) {
	t.Helper()
	in.Options.Agent, in.Prompt = "claude", "count"
	j.ExecuteWorkflow(Workflow, in)
	require.True(t, j.IsWorkflowCompleted())
	if err := j.GetWorkflowError(); err != nil {
		return Result{}, err
	}
	var out Result
	require.NoError(t, j.GetWorkflowResult(&out))
	return out, nil
}

func TestJobRepairsItsAnswer(t *testing.T) {
	t.Parallel()
	good := completed(`{"count":3}`)
	good.Value = []byte(`{"count":3}`)
	j := newJobTest(t, mismatched("three", "the answer has no JSON value"), good)
	out, err := j.run(t, Input{Schema: []byte(countSchema), Artifacts: []string{"report.md"}, Files: []File{{Path: "a", Text: "x"}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"count":3}`, string(out.Value))
	require.Equal(t, 1, out.Repairs)
	require.Empty(t, out.Mismatch)
	require.EqualValues(t, 7, out.Usage.InputTokens)
	require.InDelta(t, 0.5, *out.CostUSD, 0)
	require.Equal(t, []Artifact{{Path: "report.md", Size: 2}}, out.Artifacts)
	require.Equal(t, out.SessionID, j.began.SessionID)
	require.Contains(t, j.began.First.Text, countSchema)
	require.Len(t, j.asked, 1)
	require.Equal(t, "repair-1", j.asked[0].ID)
	require.Contains(t, j.asked[0].Text, "no JSON value")
}

// A job with a schema of null has none, and any text is its answer.
func TestJobWithASchemaOfNull(t *testing.T) {
	t.Parallel()
	j := newJobTest(t)
	j.OnActivity(ActivityAwaitAnswer, mock.Anything, mock.Anything).Return(func(_ context.Context, in AwaitAnswerInput) (Answer, error) {
		return answer(in.Schema, completed("three").Result), nil
	})
	out, err := j.run(t, Input{Schema: []byte("null")})
	require.NoError(t, err)
	require.Equal(t, "three", out.Response)
	require.Equal(t, "count", j.began.First.Text)
}

func TestJobFails(t *testing.T) {
	t.Parallel()
	limit := Answer{Result: session.Result{Outcome: session.Interrupted, Error: &event.ErrorInfo{Code: session.TypeLimit, Message: "3 turns"}}}
	interrupted := Answer{Result: session.Result{Outcome: session.Interrupted, Reason: "enough"}}
	never := mismatched("three", "no")
	for name, c := range map[string]struct {
		answers []Answer
		repairs int
		typ     string
		made    int
	}{
		"an answer that never matches": {[]Answer{never, never, never}, 0, TypeMismatch, 2},
		"no repairs":                   {[]Answer{never}, -1, TypeMismatch, 0},
		"a limit":                      {[]Answer{limit}, 0, session.TypeLimit, 0},
		"an interrupt":                 {[]Answer{interrupted}, 0, TypeInterrupted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newJobTest(t, c.answers...).run(t, Input{Schema: []byte(countSchema), Repairs: c.repairs})
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, c.typ, app.Type())
			var out Result
			require.NoError(t, app.Details(&out))
			require.Equal(t, c.made, out.Repairs)
			require.InDelta(t, 0.5, *out.CostUSD, 0, "its cost is known all the same")
		})
	}
}

func TestJobRefusesBadInput(t *testing.T) {
	t.Parallel()
	_, err := newJobTest(t).run(t, Input{Schema: []byte(`{"type":"thing"}`)})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, session.TypeInvalid, app.Type())
	require.True(t, app.NonRetryable())
}

// A job that is cancelled closes its session first.
func TestJobIsCancelled(t *testing.T) {
	t.Parallel()
	j := newJobTest(t)
	j.OnActivity(ActivityAwaitAnswer, mock.Anything, mock.Anything).After(1<<40).Return(Answer{}, nil)
	j.RegisterDelayedCallback(j.CancelWorkflow, 1<<30)
	_, err := j.run(t, Input{})
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, err, &cancelled)
	require.NotEmpty(t, j.began.SessionID)

	_, err = Find(endedClient{err: err}, "j1").Wait(t.Context())
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, TypeCancelled, f.Type)
	require.Equal(t, j.began.SessionID, f.Result.SessionID)
	require.InDelta(t, 0.5, *f.Result.CostUSD, 0, "its cost is known all the same")
}

// endedClient has one workflow, which has ended.
type endedClient struct {
	client.Client
	client.WorkflowRun
	err error
}

func (c endedClient) GetWorkflow(context.Context, string, string) client.WorkflowRun { return c }
func (c endedClient) Get(context.Context, any) error                                 { return c.err }

// A job whose workflow an operator or a timeout has ended has failed, and any other error is
// about the waiting.
func TestWaitReturnsHowAJobEnded(t *testing.T) {
	t.Parallel()
	j := newJobTest(t)
	j.OnActivity(ActivityAwaitAnswer, mock.Anything, mock.Anything).After(1<<50).Return(Answer{}, nil)
	j.SetWorkflowRunTimeout(time.Hour)
	_, ended := j.run(t, Input{})
	_, err := Find(endedClient{err: ended}, "j1").Wait(t.Context())
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, TypeEnded, f.Type)
	require.Contains(t, f.Reason, "deadline exceeded")

	away := errors.New("away")
	_, err = Find(endedClient{err: away}, "j1").Wait(t.Context())
	require.ErrorIs(t, err, away)
	require.NotErrorAs(t, err, &f)
}

// TestSessionOfAJob: two runs of one workflow, a moment apart, have two sessions.
func TestSessionOfAJob(t *testing.T) {
	t.Parallel()
	of := func(id, run, original string) string {
		return sessionID(&workflow.Info{WorkflowExecution: workflow.Execution{ID: id, RunID: run}, OriginalRunID: original})
	}
	const first, second = "01a218a4-2748-7656-ba7a-0abb3f5e7ec4", "01a218a4-2749-7056-bbf2-5194e7657928"
	require.Equal(t, "nightly-2026-11-26T17-00-00Z-3f5e7ec4", of("nightly-2026-11-26T17:00:00Z", first, first))
	require.NotEqual(t, of("a", first, first), of("a", second, second))
	require.Equal(t, of("a", first, first), of("a", second, first), "a reset run")
	long := of(strings.Repeat("x", 100), first, first)
	require.NoError(t, session.ValidateID("id", long))
}

// What goes into the result fits into one payload of Temporal's, whatever the agent has
// written; how a larger one ends is the job's.
func TestAnswerFitsIntoAPayload(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"array"}`
	said := func(text string) session.Result {
		return session.Result{Outcome: session.Completed, Result: &event.QueryResult{Response: text}}
	}
	text := answer(nil, said(strings.Repeat("x", 3<<20)))
	require.True(t, text.Result.Result.Truncated)
	small := answer([]byte(schema), said("[1, 2]"))
	require.Equal(t, Answer{Result: said("[1, 2]"), Value: []byte("[1, 2]")}, small)

	large := answer([]byte(schema), said("["+strings.Repeat("1,", MaxResultBytes)+"1]"))
	require.Empty(t, large.Mismatch)
	require.Empty(t, large.Value)
	j := newJobTest(t, large)
	_, err := j.run(t, Input{Schema: []byte(schema)})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, TypeTooLarge, app.Type())
	require.Contains(t, app.Message(), "at most 262144 go into a result")
	var out Result
	require.NoError(t, app.Details(&out))
	require.True(t, out.Truncated)
}

// A job whose session has the id of another one is bad input, and leaves that one alone.
func TestJobRefusesATakenID(t *testing.T) {
	t.Parallel()
	j := newJobTest(t)
	j.ExecuteWorkflow(func(ctx workflow.Context) error {
		cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "taken"})
		other := workflow.ExecuteChildWorkflow(cctx, session.WorkflowType, session.Input{SessionID: "taken", Options: session.Options{Title: "another"}})
		if err := other.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return err
		}
		_, err := Workflow(ctx, Input{Options: session.Options{Agent: "claude"}, Prompt: "count", SessionID: "taken", Artifacts: []string{"report.md"}})
		require.False(t, other.IsReady(), "it is not closed")
		return err
	})
	err := j.GetWorkflowError()
	require.Equal(t, "another", j.began.Options.Title)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, session.TypeInvalid, app.Type())
	require.Contains(t, app.Message(), "sessionId: is taken")
}

// A failure of what a job does beside its session has its own type.
func TestJobFailsByType(t *testing.T) {
	t.Parallel()
	for typ, f := range map[string]func(*jobTest, error){
		session.TypeInvalid: func(j *jobTest, err error) { j.OnActivity(ActivityPutFiles, mock.Anything, mock.Anything).Return(err) },
		session.TypeNotFound: func(j *jobTest, err error) {
			j.OnActivity(ActivityArtifacts, mock.Anything, mock.Anything).Return(nil, err)
		},
		session.TypeClosed: func(j *jobTest, err error) {
			j.OnActivity(ActivityAwaitAnswer, mock.Anything, mock.Anything).Return(Answer{}, err)
		},
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			j := newJobTest(t, completed("done"))
			f(j, temporal.NewNonRetryableApplicationError("no", typ, nil))
			_, err := j.run(t, Input{SessionID: "s1", Files: []File{{Path: "a"}}, Artifacts: []string{"report.md"}})
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, typ, app.Type())
			if typ == session.TypeInvalid {
				return
			}
			var out Result
			require.NoError(t, app.Details(&out))
			require.Equal(t, "s1", out.SessionID)
		})
	}
}

// Why an answer does not match is bounded, and whole characters, although it quotes the answer.
func TestMismatchIsBounded(t *testing.T) {
	t.Parallel()
	said := session.Result{Outcome: session.Completed, Result: &event.QueryResult{Response: `{"count": "` + strings.Repeat("é", 2<<20) + `"}`}}
	why := answer([]byte(countSchema), said).Mismatch
	require.Contains(t, why, "/properties/count")
	require.Contains(t, why, "integer")
	require.LessOrEqual(t, len(why), maxMismatchBytes+len(" … "))
	require.True(t, utf8.ValidString(why))
}
