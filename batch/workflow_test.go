package batch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// batchTest runs a batch whose items take a minute each and have the outcomes that play
// returns.
type batchTest struct {
	*testsuite.TestWorkflowEnvironment
	play func(Attempt) Outcome
	// began are the attempts, in order; atWork is how many run, most the greatest number.
	began        []Attempt
	atWork, most int
	// completed counts those that were not cancelled.
	completed int
	saved     []Line
}

func newBatchTest(t *testing.T, play func(Attempt) Outcome) *batchTest {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	b := &batchTest{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), play: play}
	b.SetTestTimeout(30 * time.Second)
	// A busy machine is no deadlock.
	b.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	b.RegisterWorkflowWithOptions(b.item, workflow.RegisterOptions{Name: ItemType})
	b.RegisterActivityWithOptions(func(_ context.Context, in ReportInput) (Report, error) {
		return Report{BatchID: in.BatchID, Totals: in.Totals, MS: in.MS}, nil
	}, activity.RegisterOptions{Name: ActivityReport})
	b.RegisterActivityWithOptions(func(_ context.Context, in SaveLineInput) error {
		b.saved = append(b.saved, in.Line)
		return nil
	}, activity.RegisterOptions{Name: ActivitySaveLine})
	b.RegisterActivityWithOptions(func(_ context.Context, in AwaitItemInput) (Outcome, error) {
		var index, attempt int
		_, err := fmt.Sscanf(in.WorkflowID, "default-test-workflow-id-%d-%d", &index, &attempt)
		return b.play(Attempt{index, attempt}), err
	}, activity.RegisterOptions{Name: ActivityAwaitItem})
	return b
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func (b *batchTest) item(ctx workflow.Context, in ItemInput) (Outcome, error) {
	b.began = append(b.began, in.Attempt)
	b.atWork++
	b.most = max(b.most, b.atWork)
	err := workflow.Sleep(ctx, time.Minute)
	b.atWork--
	if err != nil {
		return Outcome{Type: TypeCancelled}, nil
	}
	b.completed++
	return b.play(in.Attempt), nil
}

func (b *batchTest) run(t *testing.T, in Input) Report {
	t.Helper()
	b.ExecuteWorkflow(Workflow, in)
	require.True(t, b.IsWorkflowCompleted())
	require.NoError(t, b.GetWorkflowError())
	var out Report
	require.NoError(t, b.GetWorkflowResult(&out))
	return out
}

func (b *batchTest) progress(t *testing.T) (p Progress) {
	t.Helper()
	v, err := b.QueryWorkflow(QueryProgress)
	require.NoError(t, err)
	require.NoError(t, v.Get(&p))
	return p
}

func costs(usd float64) Outcome { return Outcome{CostUSD: &usd} }

func TestWindowIsKeptFull(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(0.25) })
	out := b.run(t, Input{Items: 25, Window: 4})
	require.Equal(t, 4, b.most)
	require.Equal(t, 25, out.Completed)
	require.InDelta(t, 6.25, out.CostUSD, 1e-9)
	require.Equal(t, int64(7*time.Minute/time.Millisecond), out.MS, "25 items, 4 at a time")
	var each []Attempt
	for i := range 25 {
		each = append(each, Attempt{i, 1})
	}
	require.ElementsMatch(t, each, b.began, "each once")
}

// What fails is tried again as often as its type allows, after all others.
func TestFailuresAreTriedAgainByType(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(a Attempt) Outcome {
		switch {
		case a.Index == 1 && a.Attempt < 3:
			return Outcome{Type: session.TypeAgentFailed}
		case a.Index == 2:
			return Outcome{Type: "SchemaMismatch"}
		case a.Index == 3:
			return Outcome{Type: session.TypeInvalid}
		}
		return costs(1)
	})
	out := b.run(t, Input{Items: 6, Window: 1, Attempts: map[string]int{session.TypeAgentFailed: 3, Any: 2}})
	require.Equal(t, []Attempt{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {1, 2}, {2, 2}, {1, 3}}, b.began)
	require.Equal(t, 4, out.Completed)
	require.Equal(t, 2, out.Failed)
	require.Equal(t, 3, out.Retried)
	require.Equal(t, map[string]int{"SchemaMismatch": 1, session.TypeInvalid: 1}, out.ByType)
	require.Equal(t, 5, out.Unpriced)
}

// What waits for another attempt is bounded, also when everything fails.
func TestWaitingAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	st := State{Next: 5, Again: make([]Attempt, maxAgain-1)}
	require.Equal(t, Attempt{5, 1}, st.take(100))
	st.Again = append(st.Again, Attempt{3, 2})
	st.Again[0] = Attempt{1, 2}
	require.Equal(t, Attempt{1, 2}, st.take(100))
	require.Equal(t, 6, st.Next)
	require.Equal(t, Attempt{6, 1}, st.take(100))
}

func TestCostHoldsABatchUntilItIsRaised(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	b.RegisterDelayedCallback(func() {
		p := b.progress(t)
		require.Equal(t, PausedByCost, p.PausedBy)
		require.Equal(t, 4, p.Completed, "2 over the limit: they were at work")
		require.Zero(t, p.Running)
		b.UpdateWorkflow(UpdateConfigure, "", &testsuite.TestUpdateCallback{
			OnReject:   func(err error) { require.Error(t, err) },
			OnAccept:   func() { require.Fail(t, "a negative window") },
			OnComplete: func(any, error) {},
		}, Change{Window: -1})
		b.UpdateWorkflow(UpdateConfigure, "", &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(t, err) },
			OnAccept: func() {},
			OnComplete: func(v any, err error) {
				require.NoError(t, err)
				require.Empty(t, v.(Progress).PausedBy)
			},
		}, Change{MaxCostUSD: 100, Window: 1})
	}, time.Hour)
	out := b.run(t, Input{Items: 6, Window: 2, MaxCostUSD: 3})
	require.Equal(t, 6, out.Completed)
	require.Greater(t, out.MS, time.Hour.Milliseconds())
}

func TestBatchIsPaused(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	b.RegisterDelayedCallback(func() { b.SignalWorkflow(SignalPause, nil) }, 90*time.Second)
	b.RegisterDelayedCallback(func() {
		p := b.progress(t)
		require.Equal(t, PausedByHand, p.PausedBy)
		require.Equal(t, 4, p.Ended(), "those at work went on")
		b.SignalWorkflow(SignalResume, nil)
	}, time.Hour)
	require.Equal(t, 6, b.run(t, Input{Items: 6, Window: 2}).Completed)
}

// A batch that is cancelled ends its items, and has a report.
func TestBatchIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	b.RegisterDelayedCallback(b.CancelWorkflow, 90*time.Second)
	b.ExecuteWorkflow(Workflow, Input{Items: 1000, Window: 2})
	require.True(t, b.IsWorkflowCompleted())
	require.True(t, temporal.IsCanceledError(b.GetWorkflowError()))
	require.Zero(t, b.atWork)
	require.Len(t, b.began, 4)
}

// An item whose workflow was terminated is a failed one, with a line in the results.
func TestAnItemIsEndedFromOutside(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, nil)
	b.play = func(a Attempt) Outcome {
		if a.Index == 1 {
			panic("ended") // the workflow fails
		}
		return costs(1)
	}
	out := b.run(t, Input{Items: 3, Attempts: map[string]int{TypeEnded: 1, Any: 1}})
	require.Equal(t, 2, out.Completed)
	require.Equal(t, 1, out.Failed)
	require.Len(t, b.saved, 1)
	require.Equal(t, 1, b.saved[0].Index)
}

// The next run of a long batch takes over what is at work, and starts nothing twice.
func TestBatchContinuesAsNew(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	b.RegisterDelayedCallback(func() { b.SetContinueAsNewSuggested(true) }, 150*time.Second)
	b.ExecuteWorkflow(Workflow, Input{Items: 10, Window: 3})
	require.True(t, b.IsWorkflowCompleted())
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, b.GetWorkflowError(), &again)
	var in Input
	require.NoError(t, fromPayloads(again, &in))
	require.Positive(t, in.Carried.Totals.Completed)

	next := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	out := next.run(t, in)
	require.Equal(t, 10, out.Completed)
	require.InDelta(t, 10, out.CostUSD, 1e-9)
	seen := map[Attempt]int{}
	for _, a := range append(b.began, next.began...) {
		seen[a]++
	}
	require.Len(t, seen, 10)
	for a, n := range seen {
		require.Equal(t, 1, n, "%v", a)
	}
}

// How an item ended that an earlier run started is known to the next one, whatever ended it,
// and is a line of the results.
func TestAnItemOfAnEarlierRunIsEndedFromOutside(t *testing.T) {
	t.Parallel()
	taken := func() Input {
		return Input{Items: 1, Attempts: map[string]int{Any: 1}, Carried: &State{Next: 1, Running: []Attempt{{0, 1}}, Window: 1}}
	}
	broken := temporal.NewNonRetryableApplicationError("no such page", session.TypeNotFound, nil)
	for typ, why := range map[string]error{
		TypeEnded:            endOf(t, &temporal.TerminatedError{}),
		TypeCancelled:        endOf(t, temporal.NewCanceledError()),
		session.TypeNotFound: endOf(t, broken),
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			b := newBatchTest(t, nil)
			item := &Activities{Temporal: endedClient{err: why}}
			b.OnActivity(ActivityAwaitItem, mock.Anything, mock.Anything).Return(item.AwaitItem)
			out := b.run(t, taken())
			require.Equal(t, map[string]int{typ: 1}, out.ByType)
			require.Len(t, b.saved, 1)
			require.Equal(t, typ, b.saved[0].Type)
			require.NotEmpty(t, b.saved[0].Message)
		})
	}
}

// endOf returns what the client reports of a workflow that ended with an error.
func endOf(t *testing.T, err error) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	// A busy machine is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.ExecuteWorkflow(func(workflow.Context) error { return err })
	return env.GetWorkflowError()
}

// endedClient has one workflow, which has ended.
type endedClient struct {
	client.Client
	client.WorkflowRun
	err error
}

func (c endedClient) GetWorkflow(context.Context, string, string) client.WorkflowRun { return c }
func (c endedClient) Get(context.Context, any) error                                 { return c.err }
func (c endedClient) GetWithOptions(context.Context, any, client.WorkflowRunGetOptions) error {
	return c.err
}

// An item whose workflow failed before it wrote anything has a line all the same.
func TestAnItemFailsWithoutALine(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, nil)
	b.OnWorkflow(ItemType, mock.Anything, mock.Anything).Return(Outcome{}, temporal.NewNonRetryableApplicationError("no such page", session.TypeNotFound, nil))
	require.Equal(t, map[string]int{session.TypeNotFound: 1}, b.run(t, Input{Items: 1, Attempts: map[string]int{Any: 1}}).ByType)
	require.Len(t, b.saved, 1)
	require.Equal(t, "no such page", b.saved[0].Message)
}

// continued runs a batch until it continues as new, and returns the next run's input.
func (b *batchTest) continued(t *testing.T, in Input) (next Input) {
	t.Helper()
	b.ExecuteWorkflow(Workflow, in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, b.GetWorkflowError(), &again)
	require.NoError(t, fromPayloads(again, &next))
	return next
}

// What a batch is asked in the very moment in which it would continue as new is not lost.
func TestNothingIsLostWhenABatchContinuesAsNew(t *testing.T) {
	t.Parallel()
	with := func(ask func(*batchTest)) *batchTest {
		b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
		b.RegisterDelayedCallback(func() {
			// Behind this callback's own workflow task, and before that of what is asked.
			b.RegisterDelayedCallback(func() { b.SetContinueAsNewSuggested(true) }, 0)
			ask(b)
		}, 90*time.Second)
		return b
	}
	for signal, paused := range map[string]bool{SignalPause: true, SignalResume: false} {
		b := with(func(b *batchTest) { b.SignalWorkflow(signal, nil) })
		in := Input{Items: 10, Carried: &State{Window: 1, Paused: !paused}}
		require.Equal(t, paused, b.continued(t, in).Carried.Paused, signal)
	}
	b := with(func(b *batchTest) { b.CancelWorkflow() })
	b.ExecuteWorkflow(Workflow, Input{Items: 10, Window: 1})
	require.True(t, temporal.IsCanceledError(b.GetWorkflowError()))
}

// An item whose line is being written when the batch continues as new is counted by the next
// run alone.
func TestAnEndedItemIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { panic("ended") })
	b.OnActivity(ActivitySaveLine, mock.Anything, mock.Anything).After(time.Hour).Return(nil)
	b.RegisterDelayedCallback(func() {
		b.SetContinueAsNewSuggested(true)
		b.SignalWorkflow(SignalResume, nil)
	}, 10*time.Minute)
	next := b.continued(t, Input{Items: 1, Attempts: map[string]int{Any: 1}})
	require.Equal(t, []Attempt{{0, 1}}, next.Carried.Running)
	require.Zero(t, next.Carried.Totals.Failed)
}

// Items that are being started when the batch is cancelled are cancelled too, and a batch that is
// cancelled before it has begun starts none.
func TestABatchIsCancelledWhileItStarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in    Input
		began int
	}{
		"before it begins": {Input{Items: 5, Window: 2}, 0},
		"while it starts":  {Input{Items: 5, Window: 2, MaxCostUSD: 1, Carried: &State{Window: 2, MaxCostUSD: 1, Totals: Totals{CostUSD: 1}}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
			if c.began == 0 {
				b.RegisterDelayedCallback(b.CancelWorkflow, 0)
			} else {
				b.RegisterDelayedCallback(func() {
					// What it starts is confirmed behind the cancel.
					b.UpdateWorkflow(UpdateConfigure, "", &testsuite.TestUpdateCallback{
						OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) }, OnComplete: func(any, error) {},
					}, Change{MaxCostUSD: 9})
					b.CancelWorkflow()
				}, time.Second)
			}
			b.ExecuteWorkflow(Workflow, c.in)
			require.True(t, temporal.IsCanceledError(b.GetWorkflowError()))
			require.Len(t, b.began, c.began)
			require.Zero(t, b.completed)
		})
	}
}

// A batch that is cancelled when all its items have ended has its report.
func TestABatchIsCancelledWhileItReports(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, func(Attempt) Outcome { return costs(1) })
	b.OnActivity(ActivityReport, mock.Anything, mock.Anything).After(time.Hour).Return(Report{Items: 1}, nil)
	b.RegisterDelayedCallback(b.CancelWorkflow, 10*time.Minute)
	require.Equal(t, 1, b.run(t, Input{Items: 1}).Items)
}
