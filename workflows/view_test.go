package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/ticks"
	"github.com/sojourn-run/sojourn/session"
)

// TestR17SessionPropertiesInWorkflow: id, status, parent, children (active
// only), isAborted, queuedMessages.
func TestR17SessionPropertiesInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var idle, running, child session.Snapshot
	p.then(
		func() { idle = p.snapshot(); p.update(session.UpdateSpawn, spawnOf("child", "HOLD on")) },
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two"); p.send("m3", "three") },
		func() {
			running = p.snapshot()
			v, err := p.env.QueryWorkflowByID("child", session.QuerySnapshot)
			require.NoError(t, err)
			require.NoError(t, v.Get(&child))
		},
	)
	p.run()
	fields := fieldsOf(t, idle)
	for field, want := range map[string]string{
		"sessionId": `"s1"`, "status": `"idle"`, "children": `[]`, "isAborted": `false`, "queuedMessages": `[]`, "version": `"1.0"`,
	} {
		require.JSONEq(t, want, string(fields[field]), field)
	}
	require.Equal(t, session.StatusRunning, running.Status)
	require.Equal(t, []session.Child{{SessionID: "child", ToolUseID: "spawn-child", Agent: "claude", RunID: running.Children[0].RunID}}, running.Children)
	require.Equal(t, []session.Message{{ID: "m2", Text: "two"}, {ID: "m3", Text: "three"}}, running.Queued)
	require.Nil(t, running.Parent)
	require.Equal(t, "s1", child.Parent.SessionID)
	require.Equal(t, session.StatusClosed, p.snapshot().Status)
	require.Empty(t, p.snapshot().Children)
}

func TestR29SnapshotInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one\nand more") }, func() {
		s := p.snapshot()
		require.Equal(t, session.SnapshotVersion, s.Version)
		require.Equal(t, "one", s.Title)
		require.Equal(t, 1, s.Turns)
		require.Equal(t, event.Usage{InputTokens: 10, OutputTokens: 5}, s.Usage)
		require.InDelta(t, 0.25, *s.CostUSD, 1e-9)
		require.Equal(t, p.w.seqs["s1"], s.LastSeq)
		require.Equal(t, "s1-e2", s.Sandbox.ID)
		require.False(t, s.Timestamp.IsZero())
	})
	p.run()
}

func TestR30InspectInWorkflow(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	phases := map[string]bool{}
	look := func() session.Inspection {
		i := p.inspect()
		phases[i.Phase] = true
		return i
	}
	p.then(
		func() { look(); p.w.crowded = true; p.send("m1", "HOLD one") },
		func() { look(); require.NoError(t, p.w.makeRoom()) },
		func() {
			i := look()
			require.Equal(t, "x1", i.CurrentExecution)
			require.Equal(t, uint64(2), i.Epoch)
			require.Equal(t, start, i.CreatedAt)
			p.w.deaf = 3
			p.update(session.UpdateInterrupt, session.InterruptRequest{})
		},
	)
	p.after(500*time.Millisecond, func() { look() })
	p.after(time.Minute, func() { p.send("m2", "two") })
	p.then(func() {
		i := look()
		require.Equal(t, "said echo: two", i.LastBlock)
		require.Equal(t, "echo: two", i.LastOutput)
		require.Equal(t, []ticks.Tool{{ToolUseID: "t-x2", Name: "bash"}}, i.LastTools)
		require.Equal(t, 2, *i.TickCount)
		require.Empty(t, i.CurrentExecution)
	})
	p.run()
	require.Equal(t, map[string]bool{"idle": true, "waiting for a sandbox": true, "turn": true, "interrupting": true}, phases)
}

func TestResultQuery(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(func() { p.send("m1", "one") }, func() {
		byExecution := queried[session.Result](p, session.QueryResult, "x1")
		require.Equal(t, "echo: one", byExecution.Result.Response)
		require.Equal(t, byExecution, queried[session.Result](p, session.QueryResult, "m1"))
		_, err := p.env.QueryWorkflow(session.QueryResult, "x9")
		require.ErrorContains(t, err, "x9")
	})
	p.run()
}

// The workflow's state is bounded, however long the session lives.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	const extra = 5
	p := newPlay(t, func(in *session.Input) {
		in.Carried = &session.State{IdleTimeoutMS: time.Hour.Milliseconds(), Native: 1, Epoch: 1}
		for i := range session.KeptReceipts {
			in.Carried.Executions++
			in.Carried.Receipts = append(in.Carried.Receipts, session.Receipt{MessageID: fmt.Sprintf("old%d", i), ExecutionID: fmt.Sprintf("x%d", i+1)})
		}
		for i := range session.KeptResults {
			in.Carried.Results = append(in.Carried.Results, session.Result{ExecutionID: fmt.Sprintf("x%d", i+1), Outcome: session.Completed})
		}
	})
	p.w.epochs["s1"] = 1
	for i := range extra {
		p.then(func() { p.send(fmt.Sprintf("new%d", i), "text") })
	}
	p.then(func() { p.wish(); p.send("last", "text") })
	next := p.runToContinue()
	require.Len(t, next.Carried.Receipts, session.KeptReceipts)
	require.Equal(t, fmt.Sprintf("old%d", extra+1), next.Carried.Receipts[0].MessageID)
	require.Len(t, next.Carried.Results, session.KeptResults)
	require.Equal(t, fmt.Sprintf("x%d", extra+1), next.Carried.Results[0].ExecutionID)
}

// A message id whose receipt was dropped is refused by update and by signal, in later runs
// too: no agent is sent a message twice.
func TestASpentMessageIDIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) {
		in.Carried = &session.State{IdleTimeoutMS: time.Hour.Milliseconds(), Native: 1, Epoch: 1}
		for i := range session.KeptReceipts {
			in.Carried.Executions++
			in.Carried.Receipts = append(in.Carried.Receipts, session.Receipt{MessageID: fmt.Sprintf("old%d", i), ExecutionID: fmt.Sprintf("x%d", i+1)})
		}
	})
	p.w.epochs["s1"] = 1
	p.then(func() { p.send("new", "text") }, func() { p.wish(); p.send("newer", "text") })
	next := p.nextRun(p.runToContinue())
	var sent, interrupting, known *answer
	next.then(
		func() { sent = next.send("old0", "again") },
		func() {
			interrupting = next.update(session.UpdateInterrupt, session.InterruptRequest{Message: &session.Message{ID: "old1", Text: "again"}})
		},
		func() { next.signalText("old0", "again") },
		func() { known = next.send("old2", "again") },
	)
	next.run()
	for _, a := range []*answer{sent, interrupting} {
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(a.refused), &invalid)
		require.Equal(t, "message.id", invalid.Field)
	}
	require.Len(t, refusals(p.w), 1)
	require.Equal(t, "message.id", refusals(p.w)[0].Field)
	require.Equal(t, "x3", next.receipt(known).ExecutionID)
	require.Equal(t, []string{"text", "text"}, p.w.prompts("s1"))
}

func TestSpentIDsAreBounded(t *testing.T) {
	t.Parallel()
	var spent session.SpentIDs
	require.False(t, spent.Has("first"))
	spent = make(session.SpentIDs, 8*(session.KeptIDs-1))
	spent.Add("first")
	require.True(t, spent.Has("first"))
	spent.Add("second")
	require.Len(t, spent, 8*session.KeptIDs)
	require.True(t, spent.Has("second"))
	require.False(t, spent.Has("third"))
}

func TestCurrentDetailsShowTheSession(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.Title = "Fix the build" })
	details := func() string {
		return queried[*sdkpb.WorkflowMetadata](p, "__temporal_workflow_metadata").GetCurrentDetails()
	}
	var closing string
	p.env.SetOnActivityStartedListener(func(i *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if i.ActivityType.Name == contract.ActivityFinish {
			closing = details()
		}
	})
	p.then(
		func() { p.send("m1", "one") },
		func() { p.send("m2", "HOLD `two`") },
		func() { p.send("m3", "three") },
		func() {
			text := details()
			for _, want := range []string{
				"### Fix the build", "**Agent:** claude", "**Status:** running, 1 message(s) waiting", "**Turns:** 1",
				"**Cost:** $0.2500", "**Sandbox:** s1-e2 on host h1", "said echo: one", "HOLD",
			} {
				require.Contains(t, text, want)
			}
			require.NoError(t, p.w.letGo("s1"))
		},
		func() {
			require.Contains(t, details(), "**Status:** idle")
			require.Contains(t, details(), "said echo: three")
		},
		func() { p.send("m4", "FAIL") },
		func() { require.Contains(t, details(), "**Last failure:** the agent said no") },
	)
	p.run()
	require.Contains(t, closing, "**Status:** closed")
	require.Contains(t, closing, "**Waits for:** stream and archive")
	require.Contains(t, details(), "**Status:** closed")
	require.NotContains(t, details(), "**Waits for:**")
}

// upsertsOf collects the search attributes that a play sets, each upsert separately,
// without the prefix of their names.
func upsertsOf(p *play) *[]map[string]any {
	upserts := &[]map[string]any{}
	p.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Run(func(args mock.Arguments) {
		set := map[string]any{}
		for key, v := range args.Get(0).(temporal.SearchAttributes).GetUntypedValues() {
			set[strings.TrimPrefix(key.GetName(), "Sojourn")] = v
		}
		*upserts = append(*upserts, set)
	})
	return upserts
}

// Search attributes are events in history: they are set when they changed, and
// only those.
func TestSearchAttributesAreSetWhenTheyChange(t *testing.T) {
	t.Parallel()
	p := newPlay(t, func(in *session.Input) { in.Options.Title, in.Options.Tenant = "a title", "acme" })
	upserts := upsertsOf(p)
	seen := func() []map[string]any { was := *upserts; *upserts = nil; return was }
	var begun, first, second, looked, tagged []map[string]any
	p.then(
		func() { begun = seen(); p.send("m1", "one") },
		func() { first = seen(); p.send("m2", "two") },
		func() { second = seen(); p.update(session.UpdateConfigure, session.Configure{Metadata: bag("k", "1")}) },
		func() { looked = seen(); p.update(session.UpdateConfigure, session.Configure{Tags: []string{"x"}}) },
		func() { tagged = seen() },
	)
	p.run()
	require.Len(t, begun, 1)
	require.Subset(t, begun[0], map[string]any{
		"Status": "idle", "Agent": "claude", "Root": "s1", "Tenant": "acme", "Title": "a title", "Depth": int64(0), "Turns": int64(0),
	})
	require.Len(t, first, 3, "one when it runs, one when it has a host, one when it is idle")
	require.Equal(t, []string{"LastActivity", "Status"}, keysOf(first[0]))
	require.Equal(t, map[string]any{"Host": "h1"}, first[1])
	require.Equal(t, []string{"CostUSD", "Outcome", "Status", "Turns"}, keysOf(first[2]))
	require.Equal(t, "completed", first[2]["Outcome"])
	require.Len(t, second, 2, "one when it runs, one when it is idle")
	require.Equal(t, []string{"LastActivity", "Status"}, keysOf(second[0]))
	require.Equal(t, "running", second[0]["Status"])
	require.Equal(t, []string{"CostUSD", "Status", "Turns"}, keysOf(second[1]), "the outcome is the same")
	require.Empty(t, looked)
	require.Equal(t, []map[string]any{{"Tags": []string{"x"}}}, tagged)
	require.Equal(t, "closed", (*upserts)[len(*upserts)-1]["Status"])
}

// TestHostFollowsATakeover: the host in the lists is the sandbox's, and none between two. It and the
// session's last activity are listed while its first turn runs.
func TestHostFollowsATakeover(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	upserts := upsertsOf(p)
	hosts := func() (of []any) {
		for _, set := range *upserts {
			// An unset attribute is not in the set.
			if h, ok := set["Host"]; ok || len(set) == 0 {
				of = append(of, h)
			}
		}
		return of
	}
	active := func() bool {
		return slices.ContainsFunc(*upserts, func(set map[string]any) bool { return set["LastActivity"] != nil })
	}
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			require.True(t, active(), "the first turn runs")
			require.Equal(t, []any{"h1"}, hosts(), "the first turn runs")
			p.w.hostOf["s1"] = "h2"
			require.NoError(t, p.w.lose("s1"))
		},
		func() {
			require.Equal(t, []any{"h1", nil, "h2"}, hosts(), "taken, lost, and it runs on another")
			require.Contains(t, (*upserts)[len(*upserts)-1], "LastActivity", "with the takeover")
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	p.run()
	require.Equal(t, []any{"h1", nil, "h2", nil}, hosts(), "closed")
}

// TestStatusWaiting: the status of a turn that waits for a person is waiting, until the
// answer is taken or the request is withdrawn.
func TestStatusWaiting(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	waits := func(execution string, requests ...string) {
		p.env.SignalWorkflow(session.SignalWaiting, session.Waiting{ExecutionID: execution, Requests: requests})
	}
	is := func(want session.Status, requests ...string) {
		i := p.inspect()
		require.Equal(t, want, i.Status)
		require.Equal(t, append([]string{}, requests...), i.Pending)
	}
	p.then(
		func() { waits("x1", "r0") },
		func() { is(session.StatusIdle); p.send("m1", "HOLD one") },
		func() { waits("x7", "r0") },
		func() { is(session.StatusRunning); waits("x1", "r1", "r2") },
		func() { is(session.StatusWaiting, "r1", "r2") },
		func() { p.update(session.UpdateRespond, session.RespondRequest{RequestID: "r1", Allow: true}) },
		func() { is(session.StatusWaiting, "r2"); waits("x1") },
		func() { is(session.StatusRunning); waits("x1", "r3") },
		func() { p.signal(session.SignalWaiting, "json/plain", "17") },
		func() { is(session.StatusWaiting, "r3"); require.NoError(t, p.w.letGo("s1")) },
		func() { is(session.StatusIdle); require.Equal(t, session.Completed, p.inspect().LastOutcome) },
	)
	p.run()
	require.Len(t, heard[event.Error](p.w, "s1"), 1, "an invalid signal is refused")
}
