package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// resultsOf returns the results of a batch, as the command line prints them.
func resultsOf(t *testing.T, id string) (all []batch.Line) {
	t.Helper()
	for text := range strings.Lines(sojourn(t, "batch", "results", id)) {
		var l batch.Line
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	return all
}

// TestBatchOutlivesItsWorkers: a batch whose worker is killed in the middle has one result for
// each item, in order; lines that are no items, and those that fail, are told by line and
// hold up no other.
func TestBatchOutlivesItsWorkers(t *testing.T) {
	inOwnNamespace(t)
	host := startKillable(t)
	gate := "batch-" + t.Name()
	var items strings.Builder
	for n := range 5 {
		fmt.Fprintf(&items, `{"id": "item-%d", "vars": {"n": %d}}`+"\n", n, n)
	}
	items.WriteString("\nno item\n" + `{"id": "bad", "prompt": "SAY none", "repairs": -1}` + "\n" + `{"id": "gate", "prompt": "GATE ` + gate + ` THEN SAY {\"n\": 7}"}` + "\n")
	file := filepath.Join(t.TempDir(), "items.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(items.String()), 0o600))
	schema := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(schema, []byte(`{"type": "object", "required": ["n"]}`), 0o600))
	run := []string{"batch", "run", file, "--id", "the-batch", "--agent", "codex", "--prompt", `SAY {"n": {{n}}}`, "--schema", schema, "--window", "4", "--attempts", "2"}
	require.Equal(t, "the-batch", strings.TrimSpace(sojourn(t, append(run, "--no-wait")...)))
	require.NoError(t, spaceOf(t).Model.Waiting(testContext(t), gate))
	host.kill()
	spaceOf(t).Model.Open(gate)

	// The same again waits for it.
	waited := runProgram(t, "sojourn", "", nil, append(run, "--json")...)
	require.Equal(t, 1, waited.code, waited.err)
	require.Contains(t, waited.err, "2 of 8 items failed")
	var report batch.Report
	require.NoError(t, json.Unmarshal([]byte(waited.out), &report))
	require.Equal(t, 8, report.Items)
	require.Equal(t, 6, report.Completed)
	require.Equal(t, map[string]int{session.TypeInvalid: 1, jobs.TypeMismatch: 1}, report.ByType)
	require.Equal(t, 1, report.Retried, "what is no item is not tried again")
	require.Positive(t, report.CostUSD+float64(report.Unpriced))
	require.Positive(t, report.P50)

	all := resultsOf(t, "the-batch")
	require.Len(t, all, 8)
	for i, l := range all {
		require.Equal(t, i, l.Index)
		switch i {
		case 5:
			require.Equal(t, session.TypeInvalid, l.Type)
			require.Equal(t, 7, l.Number, "blank lines count")
			require.Contains(t, l.Message, "line 7: is no item")
		case 6:
			require.Equal(t, "bad", l.ID)
			require.Equal(t, jobs.TypeMismatch, l.Type)
			require.Equal(t, 2, l.Attempts)
		default:
			require.Empty(t, l.Type, l.Message)
			require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i), string(l.Result.Value))
			require.Equal(t, session.StatusClosed, statusOf(t, l.Result.SessionID))
		}
	}

	require.NoError(t, os.WriteFile(file, []byte(`{"prompt": "SAY other"}`), 0o600))
	other := runProgram(t, "sojourn", "", nil, run...)
	require.Equal(t, 3, other.code, other.err)
	require.Contains(t, other.err, "exists, with other items")
	require.Len(t, resultsOf(t, "the-batch"), 8)
}

// TestBatchByHand: a batch is paused, given a larger window, resumed and cancelled by the
// command line; what is at work when it is paused is answered.
func TestBatchByHand(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs a batch by the command line")
	inOwnNamespace(t)
	startWorker(t)
	gate := func(n int) string { return fmt.Sprintf("%s-%d", t.Name(), n) }
	var items strings.Builder
	for n := range 4 {
		fmt.Fprintf(&items, `{"prompt": "GATE %s THEN SAY %d"}`+"\n", gate(n), n)
	}
	file := filepath.Join(t.TempDir(), "items.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(items.String()), 0o600))
	sojourn(t, "batch", "run", file, "--id", "by-hand", "--agent", "codex", "--window", "1", "--no-wait")
	model, ctx := spaceOf(t).Model, testContext(t)
	require.NoError(t, model.Waiting(ctx, gate(0)))
	require.Equal(t, "batch by-hand is paused\n", sojourn(t, "batch", "pause", "by-hand"))
	model.Open(gate(0))
	var now batch.Progress
	eventually(t, func(c *assert.CollectT) bool {
		sojournJSON(t, &now, "batch", "show", "by-hand")
		return now.Completed == 1
	}, patience, tick, "what is at work is answered")
	require.Zero(t, now.Running)
	require.Equal(t, batch.PausedByHand, now.PausedBy)
	require.Regexp(t, `^█+░+ 1 of 4 · 0 failed · 0 at work · paused by hand · cost `, sojourn(t, "batch", "show", "by-hand"))

	require.Equal(t, 2, program(t, "batch", "configure", "by-hand").code)
	sojournJSON(t, &now, "batch", "configure", "by-hand", "--window", "2")
	require.Equal(t, 2, now.Window)
	require.Equal(t, "batch by-hand goes on\n", sojourn(t, "batch", "resume", "by-hand"))
	require.NoError(t, model.Waiting(ctx, gate(1)))
	require.NoError(t, model.Waiting(ctx, gate(2)))
	require.Equal(t, "batch by-hand is being cancelled\n", sojourn(t, "batch", "cancel", "by-hand"))
	waited := program(t, "batch", "wait", "by-hand", "--json")
	require.NotZero(t, waited.code)
	require.Contains(t, waited.err, "cancelled")
	var report batch.Report
	require.NoError(t, json.Unmarshal([]byte(waited.out), &report), waited.out)
	require.Equal(t, 4, report.Items)
	require.Equal(t, 1, report.Completed)
	late := program(t, "batch", "pause", "by-hand")
	require.Equal(t, 3, late.code)
	require.Contains(t, late.err, "batch by-hand: the batch has ended")
	require.Contains(t, program(t, "batch", "cancel", "never-was").err, "there is no batch never-was")
	require.Eventually(t, func() bool {
		open, err := spaceOf(t).Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: spaceOf(t).Namespace, Query: "ExecutionStatus = 'Running' AND WorkflowType = '" + session.WorkflowType + "'",
		})
		return err == nil && open.GetCount() == 0
	}, patience, tick, "no session is open")
}

// TestBatchesShareAHost: of batches that wait for one place, those of the same priority take
// turns, and one that comes before others by its priority is taken first.
func TestBatchesShareAHost(t *testing.T) {
	skip.InShort(t, "TestDoctorTriesFairness asks the server")
	inOwnNamespace(t)
	startWorker(t, "--capacity=1")
	model, temporal, gate := spaceOf(t).Model, spaceOf(t).Temporal, t.Name()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience) // fourteen agents, one after the other
	defer cancel()
	file := filepath.Join(t.TempDir(), "items.jsonl")
	begin := func(id string, priority, waiting int, items ...string) {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(items, "\n")), 0o600))
		sojourn(t, "batch", "run", file, "--id", id, "--agent", "codex", "--window", "20", "--priority", strconv.Itoa(priority), "--no-wait")
		eventually(t, func(c *assert.CollectT) bool { return awaitingPlaces(ctx, c, temporal) == waiting }, patience, tick, "the items of %s wait for the place", id)
	}
	said := func(text string, n int) []string { return slices.Repeat([]string{`{"prompt": "SAY ` + text + `"}`}, n) }
	begin("holder", 3, 0, `{"prompt": "GATE `+gate+` THEN SAY one"}`)
	require.NoError(t, model.Waiting(ctx, gate))
	begin("first", 3, 7, said("first", 7)...)
	begin("second", 3, 9, said("second", 2)...)
	begin("urgent", 1, 11, said("urgent", 2)...)
	model.Open(gate)

	began := map[time.Time]string{}
	for _, id := range []string{"first", "second", "urgent"} {
		require.NoError(t, temporal.GetWorkflow(ctx, id, "").Get(ctx, nil))
		for _, l := range resultsOf(t, id) {
			h, err := spaceOf(t).Client.Get(ctx, l.Result.SessionID)
			require.NoError(t, err)
			began[timeOf[event.QueryStarted](t, events(t, h))] = id
		}
	}
	var order []string
	for _, at := range slices.SortedFunc(maps.Keys(began), time.Time.Compare) {
		order = append(order, began[at])
	}
	require.Len(t, order, 11)
	// A task that its host returns on a busy machine is behind others.
	require.NotContains(t, order[5:], "urgent", "%v", order)
	require.Less(t, slices.Index(order, "second"), 6, "%v", order)
}

// TestBatchOverManyRuns: a batch, and the sessions of its items, continue as new whenever the
// server suggests it, here every few items; what is at work is taken over, each item is
// answered once, and a pause holds in the next run. One that is terminated behind the run that
// started it is a failed item.
func TestBatchOverManyRuns(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs a batch by the command line")
	withClaude(t)
	inParallel(t)
	s := newServer(t, "--temporal-config", "limit.historyCount.suggestContinueAsNew=60")
	w := &world{temporal: s, nats: s, s3: s}
	w.inhabit(t)
	w.worker = startWorker(t, w.variables()...)
	env := append(w.variables(), "TEMPORAL_NAMESPACE=default")
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	run := func(args ...string) string {
		t.Helper()
		out := runProgram(t, "sojourn", "", env, args...)
		require.Zero(t, out.code, out.err)
		return out.out
	}
	const items, terminated, gated = 24, 3, 9
	gate := "runs-" + uuid.NewString()
	var lines strings.Builder
	for n := range items {
		text := fmt.Sprintf("SAY %d", n)
		switch n {
		case gated:
			text = "GATE " + gate + " THEN " + text
		case terminated:
			text = "GATE never-" + gate + " THEN " + text
		}
		fmt.Fprintf(&lines, `{"prompt": "%s"}`+"\n", text)
	}
	file := filepath.Join(t.TempDir(), "items.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	run("batch", "run", file, "--id", "long", "--agent", "codex", "--window", "3", "--no-wait")
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	temporal, err := client.DialContext(ctx, client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Logger: silent{}})
	require.NoError(t, err)
	defer temporal.Close()
	require.NoError(t, temporal.TerminateWorkflow(ctx, fmt.Sprintf("long-%d-1", terminated), "", "by hand"))
	run("batch", "pause", "long")
	var now batch.Progress
	eventually(t, func(c *assert.CollectT) bool {
		shown := runProgram(t, "sojourn", "", env, "batch", "show", "long", "--json")
		require.Zero(c, shown.code, shown.err)
		require.NoError(c, json.Unmarshal([]byte(shown.out), &now))
		return now.Running == 1 && now.PausedBy == batch.PausedByHand
	}, patience, tick, "only what waits is at work")
	run("batch", "resume", "long")
	spaceOf(t).Model.Open(gate)

	require.NoError(t, temporal.GetWorkflow(ctx, "long", "").Get(ctx, nil))
	require.Equal(t, 1, runProgram(t, "sojourn", "", env, "batch", "wait", "long").code, "an item has failed")
	n := 0
	for text := range strings.Lines(run("batch", "results", "long")) {
		var l batch.Line
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		require.Equal(t, n, l.Index)
		require.Equal(t, 1, l.Attempts)
		if n == terminated {
			require.Equal(t, batch.TypeEnded, l.Type, l.Message)
		} else {
			require.Equal(t, strconv.Itoa(n), l.Result.Response, l.Message)
		}
		n++
	}
	require.Equal(t, items, n)
	eventually(t, func(c *assert.CollectT) bool {
		runs, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: "WorkflowId = 'long'"})
		require.NoError(c, err)
		return runs.GetCount() > 2
	}, patience, tick, "the index has each run")
}

// timeOf returns when the first event of type P was.
func timeOf[P event.Payload](t *testing.T, all []event.Event) time.Time {
	t.Helper()
	i := slices.IndexFunc(all, nth[P](1))
	require.GreaterOrEqual(t, i, 0)
	return all[i].Context.Timestamp
}

// awaitingPlaces returns how many sessions wait for a host's place.
func awaitingPlaces(ctx context.Context, t require.TestingT, c client.Client) (n int) {
	open, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running' AND WorkflowType = '" + session.WorkflowType + "'"})
	require.NoError(t, err)
	for _, w := range open.GetExecutions() {
		d, err := c.DescribeWorkflowExecution(ctx, w.GetExecution().GetWorkflowId(), "")
		require.NoError(t, err)
		n += len(slices.DeleteFunc(d.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityType().GetName() != contract.ActivityCreateSandbox
		}))
	}
	return n
}

// manyItems is how many items the batch of many has, how many run at once, and for how long it
// may run: with SOJOURN_LONG set, a thousand.
func manyItems() (items, window int, atMost time.Duration) {
	if os.Getenv("SOJOURN_LONG") != "" {
		return 1000, 16, time.Hour
	}
	return 24, 6, patience
}

// TestBatchOfMany: of a batch whose worker is killed at each quarter of it, every item is
// answered once, by a session of its own.
func TestBatchOfMany(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers kills a worker too")
	withClaude(t)
	inOwnNamespace(t)
	items, window, atMost := manyItems()
	host := startKillable(t)
	var lines strings.Builder
	for n := range items {
		fmt.Fprintf(&lines, `{"vars": {"n": %d}}`+"\n", n)
	}
	file := filepath.Join(t.TempDir(), "items.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	began := time.Now()
	sojourn(t, "batch", "run", file, "--id", "many", "--agent", "codex", "--prompt", "SAY item {{n}}", "--window", fmt.Sprint(window), "--no-wait")
	for quarter := 1; quarter <= 4; quarter++ {
		eventually(t, func(*assert.CollectT) bool {
			var p batch.Progress
			sojournJSON(t, &p, "batch", "show", "many")
			return p.Ended() >= items*quarter/4
		}, atMost, time.Second)
		if quarter < 4 {
			host.killedInTurns(func() {})
		}
	}
	t.Logf("%d items, %d at once, in %s", items, window, time.Since(began).Round(time.Second))
	sessions := map[string]bool{}
	all := resultsOf(t, "many")
	require.Len(t, all, items)
	for n, l := range all {
		require.Equal(t, n, l.Index)
		require.Empty(t, l.Type, l.Message)
		require.Equal(t, fmt.Sprintf("item %d", n), l.Result.Response)
		require.Equal(t, 1, l.Attempts)
		sessions[l.Result.SessionID] = true
	}
	require.Len(t, sessions, items)
	require.Equal(t, items, spaceOf(t).Model.Stats().Total, "no agent is asked twice")
}
