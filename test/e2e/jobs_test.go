package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	nexuspb "go.temporal.io/api/nexus/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

const counted = `{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}},"additionalProperties":false}`

// startJob starts a job by its name, with an input that is JSON only, as a program in any
// language does.
func startJob(t *testing.T, input string) client.WorkflowRun {
	t.Helper()
	var in any
	require.NoError(t, json.Unmarshal([]byte(input), &in))
	run, err := spaceOf(t).Temporal.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
		ID: "job-" + uuid.NewString(), TaskQueue: session.TaskQueue,
	}, "AgentJob", in)
	require.NoError(t, err)
	return run
}

func statusOf(t *testing.T, id string) session.Status {
	t.Helper()
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	s, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	return s.Status
}

// TestJobHasATypedResult: a job begins with files, has an answer that its schema matches and
// files that it was asked for, closes its session and reports what it cost.
func TestJobHasATypedResult(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs jobs, too")
	withClaude(t)
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		run := startJob(t, `{
			"options": {"agent": "`+a.Info().Name+`", "tags": ["nightly"]},
			"prompt": "TOOL bash: mkdir -p out && tr a-z A-Z <in/words.txt >out/words.txt && echo x >out/other.log THEN SAY {\"count\": 3}",
			"files": [{"path": "in/words.txt", "text": "one two three\n"}, {"path": "run.sh", "base64": "ZWNobyBoaQo=", "executable": true}],
			"schema": `+counted+`,
			"artifacts": ["out/**/*.txt"]
		}`)
		var out jobs.Result
		require.NoError(t, run.Get(testContext(t), &out))
		require.JSONEq(t, `{"count":3}`, string(out.Value))
		require.Zero(t, out.Repairs)
		require.Positive(t, out.Usage.OutputTokens)
		require.Len(t, out.Artifacts, 1)
		require.Equal(t, "out/words.txt", out.Artifacts[0].Path)
		r, err := spaceOf(t).Client.OpenFile(testContext(t), out.SessionID, "out/words.txt")
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "ONE TWO THREE\n", string(text))
		require.NoError(t, r.Close())
		files, err := spaceOf(t).Client.Files(testContext(t), out.SessionID)
		require.NoError(t, err)
		for _, f := range files {
			if f.Path == "run.sh" {
				require.NotZero(t, f.Mode&0o100, "it is executable")
			}
		}
		require.Equal(t, session.StatusClosed, statusOf(t, out.SessionID))
		requireParity(t, out.SessionID)
	})
}

// askForAJob is a workflow of another team, which knows an endpoint and JSON.
func askForAJob(ctx workflow.Context, endpoint string, in json.RawMessage) (out json.RawMessage, err error) {
	c := workflow.NewNexusClient(endpoint, "AgentJobs")
	return out, c.ExecuteOperation(ctx, "run", in, workflow.NexusOperationOptions{}).Get(ctx, &out)
}

// TestJobOverNexus: a workflow that reaches no task queue of ours has a job by an endpoint of
// Nexus, with the same result.
func TestJobOverNexus(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs jobs, too")
	onSharedHost(t)
	ctx, c := testContext(t), spaceOf(t).Temporal
	endpoint := "jobs-" + uuid.NewString()[:8]
	_, err := c.OperatorService().CreateNexusEndpoint(ctx, &operatorservice.CreateNexusEndpointRequest{Spec: &nexuspb.EndpointSpec{
		Name: endpoint, Target: &nexuspb.EndpointTarget{Variant: &nexuspb.EndpointTarget_Worker_{
			Worker: &nexuspb.EndpointTarget_Worker{Namespace: spaceOf(t).Namespace, TaskQueue: session.TaskQueue},
		}},
	}})
	require.NoError(t, err)
	w := sdkworker.New(c, endpoint, sdkworker.Options{})
	w.RegisterWorkflow(askForAJob)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	in := json.RawMessage(`{"options": {"agent": "codex"}, "prompt": "SAY {\"count\": 7}", "schema": ` + counted + `}`)
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: endpoint}, askForAJob, endpoint, in)
	require.NoError(t, err)
	var out jobs.Result
	require.NoError(t, run.Get(ctx, &out))
	require.JSONEq(t, `{"count":7}`, string(out.Value))
	require.Equal(t, session.StatusClosed, statusOf(t, out.SessionID))
}

// TestJobFailsByName: why a job failed is the type of its error, and its session is closed.
func TestJobFailsByName(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs jobs, too")
	withClaude(t)
	onSharedHost(t)
	for name, c := range map[string]struct{ input, typ string }{
		"an answer that does not match": {`{"options": {"agent": "codex"}, "prompt": "SAY none", "schema": ` + counted + `, "repairs": 1}`, jobs.TypeMismatch},
		"a limit":                       {`{"options": {"agent": "codex", "maxTicks": 1}, "prompt": "TOOL bash: echo x THEN TOOL bash: echo y THEN SAY done"}`, session.TypeMaxTicks},
		"a limit before a repair":       {`{"options": {"agent": "codex", "limits": {"turns": 1}}, "prompt": "SAY none", "schema": ` + counted + `, "repairs": 1}`, session.TypeLimit},
		// Six thousand files, whose names are more than a payload takes.
		"a result that is too large": {`{"options": {"agent": "codex"}, "prompt": "TOOL bash: mkdir o; cd o; seq -f %060g 6000 | xargs touch THEN SAY done", "artifacts": ["o/*"]}`, jobs.TypeTooLarge},
		"bad input":                  {`{"options": {"agent": "codex"}, "prompt": "SAY x", "artifacts": ["["]}`, session.TypeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			err := startJob(t, c.input).Get(testContext(t), nil)
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, c.typ, app.Type())
			if c.typ == session.TypeInvalid {
				return
			}
			var out jobs.Result
			require.NoError(t, app.Details(&out))
			require.Equal(t, session.StatusClosed, statusOf(t, out.SessionID))
		})
	}
}

// TestJobOfALongAnswer: a result has as much of an answer as Temporal takes; the conversation
// has all of it.
func TestJobOfALongAnswer(t *testing.T) {
	onSharedHost(t)
	const size = 2<<20 + 1<<16 // more than a payload takes
	var out jobs.Result
	require.NoError(t, startJob(t, fmt.Sprintf(`{"options": {"agent": %q}, "prompt": "BIG %d"}`, anyAgent(t), size)).Get(testContext(t), &out))
	require.True(t, out.Truncated)
	require.Greater(t, len(out.Response), jobs.MaxResultBytes/3)
	conv, err := spaceOf(t).Client.Show(testContext(t), out.SessionID, session.FromArchive)
	require.NoError(t, err)
	last := conv.State.Blocks[len(conv.State.Blocks)-1]
	require.Len(t, *last.Content, size)
	require.True(t, strings.HasPrefix(*last.Content, strings.TrimSuffix(out.Response, "…")))

	// So is the answer to a message of a schedule.
	id := uuid.NewString()
	asked, err := spaceOf(t).Temporal.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{ID: "asked-" + id, TaskQueue: session.TaskQueue},
		schedules.MessageType, schedules.Message{SessionID: id, Options: session.Options{Agent: anyAgent(t)}, Prompt: fmt.Sprintf("BIG %d", size)})
	require.NoError(t, err)
	var answer event.QueryResult
	require.NoError(t, asked.Get(testContext(t), &answer))
	require.True(t, answer.Truncated)
	require.NotEmpty(t, answer.Response)
}

// TestJobIsCancelled: a job that is cancelled, or terminated, leaves no agent at work.
func TestJobIsCancelled(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs jobs, too")
	withClaude(t)
	onSharedHost(t)
	for name, end := range map[string]func(client.WorkflowRun) error{
		"cancelled": func(run client.WorkflowRun) error {
			return spaceOf(t).Temporal.CancelWorkflow(testContext(t), run.GetID(), "")
		},
		"terminated": func(run client.WorkflowRun) error {
			return spaceOf(t).Temporal.TerminateWorkflow(testContext(t), run.GetID(), "", "enough")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			gate, id := "job-"+uuid.NewString(), "job-"+uuid.NewString()
			run := startJob(t, `{"options": {"agent": "codex"}, "prompt": "GATE `+gate+`", "sessionId": "`+id+`"}`)
			require.NoError(t, spaceOf(t).Model.Waiting(testContext(t), gate))
			require.NoError(t, end(run))
			_, err := jobs.Find(spaceOf(t).Temporal, run.GetID()).Wait(testContext(t))
			var f *jobs.Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, map[string]string{"cancelled": jobs.TypeCancelled, "terminated": jobs.TypeEnded}[name], f.Type)
			require.Equal(t, map[string]string{"cancelled": id}[name], f.Result.SessionID)
			require.Eventually(t, func() bool { return statusOf(t, id) == session.StatusClosed }, patience, tick)
		})
	}
}

// TestRunCommand: a job by the command line has its files, its value and what it made, fails
// by its exit code, and is found again by its id.
func TestRunCommand(t *testing.T) {
	skip.InShort(t, "TestBatchOutlivesItsWorkers runs jobs, too")
	onSharedHost(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	schema, out := file("schema.json", counted), filepath.Join(dir, "out")
	run := func(args ...string) said {
		return program(t, append([]string{"run", "--agent", anyAgent(t)}, args...)...)
	}
	made := run("--schema", schema, "--file", file("report.csv", "1\n2\n")+"=in/data.csv", "--artifact", "made/*", "--out", out,
		`TOOL bash: mkdir made; wc -l < in/data.csv > made/lines; touch left made/tool && chmod 755 made/tool THEN SAY {"count": 2}`)
	require.Zero(t, made.code, made.err)
	require.JSONEq(t, `{"count": 2}`, made.out)
	lines, err := os.ReadFile(filepath.Join(out, "made", "lines"))
	require.NoError(t, err)
	require.Equal(t, "2", strings.TrimSpace(string(lines)))
	require.NoFileExists(t, filepath.Join(out, "left"))
	for name, executable := range map[string]bool{"lines": false, "tool": true} {
		info, err := os.Stat(filepath.Join(out, "made", name))
		require.NoError(t, err)
		require.Equal(t, executable, info.Mode()&0o100 != 0, name)
	}

	refused(t, run("--out", schema, "SAY never"), 2, "--out: ", "--out wants a folder")
	other := run("--schema", schema, "--repairs", "0", "SAY none")
	require.Equal(t, 1, other.code)
	require.Empty(t, other.out)
	require.Regexp(t, `the job failed: the answer does not match the schema.*\n.*sojourn show \S+ shows how far it came`, other.err)

	id := "run-" + uuid.NewString()
	started := run("--id", id, "--no-wait", "SAY the answer")
	require.Zero(t, started.code, started.err)
	require.Equal(t, id+"\n", started.out)
	var found jobs.Result
	again := run("--id", id, "--json", "SAY the answer")
	require.Zero(t, again.code, again.err)
	require.NoError(t, json.Unmarshal([]byte(again.out), &found), again.out)
	require.Equal(t, "the answer", found.Response)
	require.Equal(t, session.StatusClosed, statusOf(t, found.SessionID))
}
