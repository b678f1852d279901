package workflows

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/workflows/reconcile"
)

// suggestAt is the history length at which the recording server suggests continue-as-new;
// only the scene for it gets that long.
const suggestAt = 60

// scene is one session that is recorded. Its history is stored under its name, as are those
// of the other workflows that it names.
type scene struct {
	name  string
	play  func(*recorder, string)
	input func(*session.Input)
	// more are further workflow ids to record, with their files' names.
	more map[string]string
}

var scenes = []scene{
	{name: "update-send", play: func(r *recorder, id string) {
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
		r.turns(id, 1)
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "FAIL"})
		r.turns(id, 2)
	}},
	{name: "signal-message", play: func(r *recorder, id string) {
		r.signal(id, session.SignalMessage, map[string]string{"text": "an object"})
		r.turns(id, 1)
		r.signal(id, session.SignalMessage, "a string")
		r.turns(id, 2)
		r.signal(id, session.SignalMessage, payload(converter.MetadataEncodingBinary, "plain text"))
		r.turns(id, 3)
	}},
	{name: "signal-queue", play: func(r *recorder, id string) {
		r.signal(id, session.SignalQueue, session.Message{ID: "m1", Text: "one"})
		r.queued(id, 1)
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "two"})
		r.turns(id, 2)
	}},
	{name: "update-render", play: func(r *recorder, id string) {
		r.update(id, session.UpdateRender, session.RenderRequest{})
		r.signal(id, session.SignalQueue, session.Message{ID: "m1", Text: "one"})
		r.queued(id, 1)
		r.update(id, session.UpdateRender, session.RenderRequest{Options: session.Configure{Model: ptr("opus")}})
		r.turns(id, 1)
	}},
	{name: "update-interrupt", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{Reason: "enough", Message: &session.Message{ID: "m2", Text: "two"}})
		r.turns(id, 2)
	}},
	{name: "signal-interrupt", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.signal(id, session.SignalInterrupt, session.InterruptRequest{Reason: "enough"})
		r.turns(id, 1)
	}},
	{name: "update-clear-abort", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{})
		r.turns(id, 1)
		r.update(id, session.UpdateClearAbort)
	}},
	{name: "update-spawn", more: map[string]string{"child-1": "child"}, play: func(r *recorder, id string) {
		r.update(id, session.UpdateSpawn, spawnOf("child-1", "one"))
		r.until(id, func(s session.Snapshot) bool { return len(s.Children) == 0 })
	}},
	{name: "spawn-interrupted", more: map[string]string{"child-2": "child-interrupted"}, play: func(r *recorder, id string) {
		r.update(id, session.UpdateSpawn, spawnOf("child-2", "HOLD two"))
		r.held("child-2")
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{})
		r.until(id, func(s session.Snapshot) bool { return len(s.Children) == 0 })
	}},
	{name: "spawn-closed", more: map[string]string{"child-3": "child-closed"}, play: func(r *recorder, id string) {
		r.update(id, session.UpdateSpawn, spawnOf("child-3", "HOLD three"))
		r.held("child-3")
	}},
	{name: "spawn-in-a-turn", input: func(in *session.Input) { in.Options.Limits = limits.Limits{Tokens: 1000} }, play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateSpawn, spawnOf("child-5", "one"))
		r.until(id, func(s session.Snapshot) bool { return len(s.Children) == 0 })
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "update-respond", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateRespond, session.RespondRequest{RequestID: "r1", Allow: true})
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "signal-waiting", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.signal(id, session.SignalWaiting, session.Waiting{ExecutionID: "x1", Requests: []string{"r1"}})
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusWaiting })
		r.update(id, session.UpdateRespond, session.RespondRequest{RequestID: "r1", Allow: true})
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "signal-respond", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.signal(id, session.SignalWaiting, session.Waiting{ExecutionID: "x1", Requests: []string{"r1"}})
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusWaiting })
		r.signal(id, session.SignalRespond, "allow")
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusRunning })
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "limits", input: func(in *session.Input) { in.Options.Limits = limits.Limits{Tokens: 15} }, play: func(r *recorder, id string) {
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "LIMIT one"})
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusPaused })
		r.update(id, session.UpdateConfigure, session.Configure{Limits: &limits.Change{Tokens: ptr(int64(1000))}})
		r.turns(id, 2)
	}},
	{name: "parked", play: func(r *recorder, id string) {
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "PARK 2"})
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusWaiting && s.Sandbox == nil })
		r.update(id, session.UpdateRespond, session.RespondRequest{RequestID: "r1-1", Allow: true})
		r.signal(id, session.SignalRespond, "deny")
		require.Eventually(r, func() bool { return len(r.w.prompts(id)) == 2 }, harness.Patience, poll)
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusWaiting && s.Sandbox == nil })
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{Reason: "never mind"})
		r.turns(id, 1)
	}},
	{name: "update-configure", play: func(r *recorder, id string) {
		r.update(id, session.UpdateConfigure, session.Configure{Title: ptr("idle"), Metadata: bag("k", "1")})
		r.hold(id, "m1")
		r.update(id, session.UpdateConfigure, session.Configure{Model: ptr("opus"), Tags: []string{"live"}})
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "update-edit-queue", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "two"})
		r.update(id, session.UpdateEditQueue, session.QueueEdit{MessageID: "m2", Message: &session.Message{Text: "changed"}})
		r.update(id, session.UpdateEditQueue, session.QueueEdit{MessageID: "m2", Cancel: true})
	}},
	{name: "update-evict", play: func(r *recorder, id string) {
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
		r.turns(id, 1)
		r.update(id, session.UpdateEvict)
		r.until(id, func(s session.Snapshot) bool { return s.Sandbox == nil })
	}},
	{name: "update-close", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "never"})
	}},
	{name: "cancel", play: func(r *recorder, id string) {
		r.hold(id, "m1")
		require.NoError(r, r.c.CancelWorkflow(r.ctx, id, ""))
		require.NoError(r, r.c.GetWorkflow(r.ctx, id, "").Get(r.ctx, nil))
	}},
	{
		name: "idle-timeout", input: func(in *session.Input) { in.Options.IdleTimeoutMS = 200 },
		play: func(r *recorder, id string) {
			r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
			r.turns(id, 1)
			r.until(id, func(s session.Snapshot) bool { return s.Sandbox == nil })
			r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "two"})
			r.turns(id, 2)
		},
	},
	{name: "bad-signal", play: func(r *recorder, id string) {
		r.signal(id, session.SignalMessage, map[string]int{"text": 5})
		r.hold(id, "m1")
		r.signal(id, session.SignalQueue, payload(converter.MetadataEncodingJSON, "garbage"))
		require.Eventually(r, func() bool { return len(refusalsOf(r.w, id)) == 2 }, harness.Patience, poll)
		r.letGo(id)
		r.turns(id, 1)
	}},
	{name: "no-place", play: func(r *recorder, id string) {
		r.w.mu.Lock()
		r.w.crowded = true
		r.w.mu.Unlock()
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
		r.until(id, func(s session.Snapshot) bool { return s.Status == session.StatusRunning })
		require.Eventually(r, func() bool { r.w.mu.Lock(); defer r.w.mu.Unlock(); return len(r.w.waiting) == 1 }, harness.Patience, poll)
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{})
		require.NoError(r, r.w.makeRoom())
		r.turns(id, 1)
	}},
	{name: "host-lost", play: func(r *recorder, id string) {
		r.w.mu.Lock()
		r.w.hostOf[id] = "gone"
		r.w.mu.Unlock()
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
		r.until(id, func(s session.Snapshot) bool { return s.Sandbox != nil })
		r.w.mu.Lock()
		delete(r.w.hostOf, id)
		r.w.mu.Unlock()
		// It takes the 45 s after which a host is lost.
		r.turns(id, 1)
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "two"})
		r.turns(id, 2)
	}},
	{name: "continue-as-new", more: map[string]string{"continue-as-new": "continued"}, play: func(r *recorder, id string) {
		first := r.runID(id)
		for n := 1; r.runID(id) == first; n++ {
			r.update(id, session.UpdateSend, session.Message{Text: "again"})
			r.turns(id, n)
		}
		r.runs[id] = first
		r.update(id, session.UpdateSend, session.Message{Text: "in the new run"})
	}},
	{name: "spawn-continued", more: map[string]string{"spawn-continued": "spawn-awaited"}, play: func(r *recorder, id string) {
		r.update(id, session.UpdateSpawn, spawnOf("child-4", "HOLD four"))
		r.held("child-4")
		first := r.runID(id)
		for n := 1; r.runID(id) == first; n++ {
			r.update(id, session.UpdateSend, session.Message{Text: "again"})
			r.turns(id, n)
		}
		r.runs[id] = first
		r.update(id, session.UpdateInterrupt, session.InterruptRequest{})
		require.Eventually(r, func() bool { return r.w.childEnds("child-4", session.Output{Outcome: session.Interrupted}, nil) == nil }, harness.Patience, poll)
		r.until(id, func(s session.Snapshot) bool { return len(s.Children) == 0 })
	}},
	{name: "reset", play: func(r *recorder, id string) {
		r.update(id, session.UpdateSend, session.Message{ID: "m1", Text: "one"})
		r.turns(id, 1)
		point := r.lastTask(id)
		r.update(id, session.UpdateSend, session.Message{ID: "m2", Text: "two"})
		r.turns(id, 2)
		r.setAhead(id, answeredBefore("x1", "m1"), answeredBefore("x2", "m2"))
		r.reset(id, point)
		r.runs[id] = r.runID(id)
		r.turns(id, 2)
		require.Equal(r, []string{"one", "two"}, r.w.prompts(id), "m2 came again with the reset, and was answered already")
		r.update(id, session.UpdateSend, session.Message{ID: "m3", Text: "three"})
		r.turns(id, 3)
	}},
	{name: "terminated", more: map[string]string{"reconcile-terminated": "reconcile"}, play: func(r *recorder, id string) {
		r.hold(id, "m1")
		require.NoError(r, r.c.TerminateWorkflow(r.ctx, id, "", "an operator"))
		ended := session.TerminatedRun{SessionID: id, RunID: r.runID(id)}
		run, err := r.c.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: "reconcile-" + id, TaskQueue: session.TaskQueue}, session.ReconcileType, ended)
		require.NoError(r, err)
		require.NoError(r, run.Get(r.ctx, nil))
	}},
}

// TestRecordHistories plays every scene on a real server, with this package's workflow and
// a world of fakes, and stores the histories in testdata/history. It is run by hand, after
// `make build`, when a scene is added or when the workflow was changed without breaking
// open sessions; 1 means all scenes:
//
//	SOJOURN_RECORD_HISTORIES=reset,terminated go test -run TestRecordHistories ./workflows
//
// A history without a scene is from before a change id: it is kept. Those of earlier days are
// in testdata/frozen and are never recorded anew.
func TestRecordHistories(t *testing.T) {
	wanted := os.Getenv("SOJOURN_RECORD_HISTORIES")
	if wanted == "" {
		skip.Unasked(t, "records histories; set SOJOURN_RECORD_HISTORIES=1, and see its comment")
	}
	r := newRecorder(t)
	require.NoError(t, os.MkdirAll(historyDir, 0o755))
	for _, s := range scenes {
		if wanted != "1" && !slices.Contains(strings.Split(wanted, ","), s.name) {
			continue
		}
		t.Log(s.name)
		in := session.Input{SessionID: s.name, Options: session.Options{Agent: "claude"}, CreatedAt: start}
		if s.input != nil {
			s.input(&in)
		}
		_, err := r.c.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: s.name, TaskQueue: session.TaskQueue}, session.WorkflowType, in)
		require.NoError(t, err)
		s.play(r, s.name)
		r.close(s.name)
		r.keep(s.name, r.runs[s.name], s.name)
		for id, file := range s.more {
			r.keep(id, "", file)
		}
	}
}

// poll is the interval for checking a condition that sends no signal.
const poll = 20 * time.Millisecond

// recorder has a server, workers with a fake world, and a client.
type recorder struct {
	*testing.T
	ctx context.Context
	c   client.Client
	w   *world
	// runs names the run to record where it is not the last.
	runs map[string]string
}

func newRecorder(t *testing.T) *recorder {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	bin := os.Getenv("SOJOURN_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin")
	}
	dir := t.TempDir()
	env := filepath.Join(dir, "env")
	servers, err := harness.Spawn(ctx, harness.Spec{
		Name: "devstack", ReadyFile: env, Dir: dir,
		Argv: []string{
			absolute(t, filepath.Join(bin, "sojourn-devstack")), "--data-dir", filepath.Join(dir, "data"), "--env-file", env,
			"--temporal-port", "0", "--ui-port", "0", "--nats-port", "0", "--s3-port", "0",
			"--temporal-config", "limit.historyCount.suggestContinueAsNew=" + strconv.Itoa(suggestAt),
		},
	})
	require.NoError(t, err, "run make build first")
	t.Cleanup(func() { require.NoError(t, servers.Stop()) })
	settings, err := harness.ReadEnv(env)
	require.NoError(t, err)
	c, err := client.DialContext(ctx, client.Options{HostPort: settings["TEMPORAL_ADDRESS"], Logger: quiet{}, Identity: "recorder"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := &recorder{T: t, ctx: ctx, c: c, w: newWorld(), runs: map[string]string{}}
	r.w.complete = func(token []byte, result any, err error) error { return c.CompleteActivity(ctx, token, result, err) }
	r.w.nudge, r.w.now = func(string) error { return nil }, time.Now
	r.serve()
	return r
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

func (r *recorder) serve() {
	for _, queue := range []string{session.TaskQueue, session.CreateQueue, session.HostQueue(host), session.ControlQueue(host), session.WatchQueue} {
		w := worker.New(r.c, queue, worker.Options{DisableWorkflowWorker: queue != session.TaskQueue})
		if queue == session.TaskQueue {
			w.RegisterWorkflowWithOptions(Session, workflow.RegisterOptions{Name: session.WorkflowType})
			w.RegisterWorkflowWithOptions(reconcile.Session, workflow.RegisterOptions{Name: session.ReconcileType})
			h := terminatedHost{found: inMidTurn()}
			w.RegisterActivityWithOptions(h.describe, activity.RegisterOptions{Name: contract.ActivityDescribeTerminated})
			w.RegisterActivityWithOptions(h.record, activity.RegisterOptions{Name: contract.ActivityRecordTermination})
		}
		for name, f := range r.w.activities() {
			w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
		}
		require.NoError(r, w.Start())
		r.Cleanup(w.Stop)
	}
}

func (r *recorder) update(id, name string, args ...any) {
	r.Helper()
	u, err := r.c.UpdateWorkflow(r.ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(r, err)
	require.NoError(r, u.Get(r.ctx, nil))
}

func (r *recorder) signal(id, name string, arg any) {
	r.Helper()
	require.NoError(r, r.c.SignalWorkflow(r.ctx, id, "", name, arg))
}

func (r *recorder) until(id string, fits func(session.Snapshot) bool) {
	r.Helper()
	require.Eventually(r, func() bool {
		v, err := r.c.QueryWorkflow(r.ctx, id, "", session.QuerySnapshot)
		var s session.Snapshot
		return err == nil && v.Get(&s) == nil && fits(s)
	}, harness.Patience, poll)
}

// turns waits until so many turns have ended and the session is idle.
func (r *recorder) turns(id string, n int) {
	r.Helper()
	r.until(id, func(s session.Snapshot) bool { return s.Turns == n && s.Status == session.StatusIdle })
}

func (r *recorder) queued(id string, n int) {
	r.Helper()
	r.until(id, func(s session.Snapshot) bool { return len(s.Queued) == n })
}

// hold sends a message that the agent holds, and waits until it does.
func (r *recorder) hold(id, message string) {
	r.Helper()
	r.update(id, session.UpdateSend, session.Message{ID: message, Text: "HOLD"})
	r.held(id)
}

func (r *recorder) held(id string) {
	r.Helper()
	require.Eventually(r, func() bool {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		_, held := r.w.running[id]
		return held
	}, harness.Patience, poll)
}

func (r *recorder) letGo(id string) {
	r.Helper()
	require.NoError(r, r.w.letGo(id))
}

// history returns the whole history of a workflow's run.
func (r *recorder) history(id, run string) *historypb.History {
	r.Helper()
	h := &historypb.History{}
	for it := r.c.GetWorkflowHistory(r.ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		ev, err := it.Next()
		require.NoError(r, err)
		h.Events = append(h.Events, ev)
	}
	return h
}

// lastTask returns where to reset to undo everything from now on.
func (r *recorder) lastTask(id string) (at int64) {
	r.Helper()
	for _, ev := range r.history(id, "").GetEvents() {
		if ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			at = ev.GetEventId()
		}
	}
	return at
}

// setAhead sets the state of a session that is going to be reset.
func (r *recorder) setAhead(id string, results ...session.Result) {
	r.Helper()
	v, err := r.c.QueryWorkflow(r.ctx, id, "", session.QuerySnapshot)
	require.NoError(r, err)
	var s session.Snapshot
	require.NoError(r, v.Get(&s))
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.ahead = &contract.CatchUpOutput{
		Epoch: s.Sandbox.Epoch, Sandbox: s.Sandbox, LastSeq: r.w.seqs[id], MinTurn: s.Turns, Executions: s.Turns, Results: results,
	}
}

func (r *recorder) reset(id string, point int64) {
	r.Helper()
	_, err := r.c.ResetWorkflowExecution(r.ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: r.runID(id)},
		Reason: "an operator", WorkflowTaskFinishEventId: point, RequestId: id,
	})
	require.NoError(r, err)
}

func (r *recorder) runID(id string) string {
	r.Helper()
	d, err := r.c.DescribeWorkflowExecution(r.ctx, id, "")
	require.NoError(r, err)
	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

func (r *recorder) close(id string) {
	r.Helper()
	d, err := r.c.DescribeWorkflowExecution(r.ctx, id, "")
	require.NoError(r, err)
	if d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return
	}
	r.update(id, session.UpdateClose)
	require.NoError(r, r.c.GetWorkflow(r.ctx, id, "").Get(r.ctx, nil))
}

// keep writes a history to a file, one event per line.
func (r *recorder) keep(id, run, file string) {
	r.Helper()
	var out bytes.Buffer
	out.WriteString(`{"events":[`)
	for i, ev := range r.history(id, run).GetEvents() {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		data, err := protojson.Marshal(ev)
		require.NoError(r, err)
		var fields map[string]any
		require.NoError(r, json.Unmarshal(data, &fields))
		drop(fields)
		data, err = json.Marshal(fields)
		require.NoError(r, err)
		out.Write(data)
	}
	out.WriteString("\n]}\n")
	require.NoError(r, os.WriteFile(filepath.Join(historyDir, file+".json"), out.Bytes(), 0o644))
}

// drop removes what no replay reads: it only makes the files large.
func drop(fields map[string]any) {
	for _, name := range []string{
		"taskId", "identity", "requestId", "historySizeBytes", "workerVersion", "meteringMetadata", "retryPolicy", "header",
		"useWorkflowBuildId", "scheduleToCloseTimeout", "scheduleToStartTimeout", "startToCloseTimeout", "heartbeatTimeout",
	} {
		delete(fields, name)
	}
	if task, ok := fields["workflowTaskScheduledEventAttributes"].(map[string]any); ok {
		delete(task, "taskQueue")
	}
	for _, v := range fields {
		if inner, ok := v.(map[string]any); ok {
			drop(inner)
		}
	}
}
