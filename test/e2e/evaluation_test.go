package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestEvaluation: each line is run with each variant, and checked in the sandbox in which its
// agent has worked; the report has a table of what each variant passed.
func TestEvaluation(t *testing.T) {
	skip.InShort(t, "with two agents; TestBatchOutlivesItsWorkers runs a batch")
	onSharedHost(t)
	file := filepath.Join(t.TempDir(), "items.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"id": "right", "prompt": "TOOL write: answer.txt :: 42"}
{"id": "wrong", "prompt": "TOOL write: answer.txt :: 41"}
{"id": "slow", "prompt": "SAY slow", "check": "sleep 600", "checkTimeoutMs": 200}
`), 0o600))
	ran := runProgram(t, "sojourn", "", nil, "batch", "run", file, "--variant", "claude", "--variant", "codex=gpt-6.1-sol",
		"--check", `pwd; grep -qx 42 answer.txt || { echo "not 42"; exit 3; }`, "--attempts", "3", "--json")
	require.Equal(t, 1, ran.code, ran.err)
	var report batch.Report
	require.NoError(t, json.Unmarshal([]byte(ran.out), &report))
	require.Equal(t, 6, report.Items)
	require.Zero(t, report.Retried, "what does not pass is not tried again")
	require.Len(t, report.Variants, 2)
	for i, name := range []string{"claude", "codex=gpt-6.1-sol"} {
		v := report.Variants[i]
		require.Equal(t, []any{name, 1, 2, 0}, []any{v.Name, v.Passed, v.CheckFailed, v.Failed})
		require.InDelta(t, 1.0/3, v.PassRate, 0.001)
		require.Positive(t, v.P50)
	}
	said := map[string]string{}
	for _, l := range resultsOf(t, report.BatchID) {
		said[l.Variant+" "+l.ID] = l.Type + ": " + l.Message
		if l.ID == "wrong" {
			require.Equal(t, jobs.TypeCheckFailed, l.Type)
			require.Contains(t, l.Message, "the check ended with code 3: /")
			require.Contains(t, l.Message, "not 42")
		}
	}
	require.Len(t, said, 6)
	require.Equal(t, ": ", said["codex=gpt-6.1-sol right"])
	require.Contains(t, said["claude slow"], "code 124: it did not end within 200ms")
	printed := runProgram(t, "sojourn", "", nil, "batch", "wait", report.BatchID, "--timeout", "1m")
	require.Contains(t, printed.out, "1 of 3, 33 %")
	none := runProgram(t, "sojourn", "", nil, "batch", "run", file, "--variant", "nobody=gpt")
	require.Equal(t, 2, none.code)
	require.Contains(t, none.err, `--variant: "nobody=gpt" names no agent`)
}

// TestCheckOutlastsTheIdleTimeout: a session does not give up the sandbox in which its job's check
// runs, however long that takes.
func TestCheckOutlastsTheIdleTimeout(t *testing.T) {
	skip.InShort(t, "activities has TestACheckKeepsItsSandbox")
	onSharedHost(t)
	run := startJob(t, `{"options": {"agent": "codex", "idleTimeoutMs": 15000}, "prompt": "SAY done", "check": "sleep 20"}`)
	var out jobs.Result
	require.NoError(t, run.Get(testContext(t), &out))
	require.Equal(t, "done", out.Response)
}
