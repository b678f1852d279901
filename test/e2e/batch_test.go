package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/batch"
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
	require.Eventually(t, func() bool {
		open, err := spaceOf(t).Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: spaceOf(t).Namespace, Query: "ExecutionStatus = 'Running' AND WorkflowType = '" + session.WorkflowType + "'",
		})
		return err == nil && open.GetCount() == 0
	}, patience, tick, "no session is open")
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
