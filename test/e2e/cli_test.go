package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// said is the output and exit code of a program.
type said struct {
	out, err string
	code     int
}

// runProgram runs one of the repository's programs until it exits.
func runProgram(t *testing.T, name, stdin string, env []string, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), filepath.Join(shared.Bin, name), args...)
	cmd.Env = append(os.Environ(), append([]string{"TEMPORAL_NAMESPACE=" + spaceOf(t).Namespace}, env...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, serr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &serr
	err := cmd.Run()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	return said{out.String(), serr.String(), cmd.ProcessState.ExitCode()}
}

// sojourn runs the command line as a user does, and fails the test unless it succeeds.
func sojourn(t *testing.T, args ...string) string {
	t.Helper()
	s := runProgram(t, "sojourn", "", nil, args...)
	require.Zero(t, s.code, "sojourn %s: %s", strings.Join(args, " "), s.err)
	return s.out
}

// sojournJSON runs sojourn with --json and decodes its output into v.
func sojournJSON(t *testing.T, v any, args ...string) {
	t.Helper()
	out := sojourn(t, append(args, "--json")...)
	require.Equal(t, 1, strings.Count(out, "\n"), "one JSON value on one line: %s", out)
	require.NoError(t, json.Unmarshal([]byte(out), v), out)
}

// waitsFor matches the lines that a command prints after it has waited for two seconds.
var waitsFor = regexp.MustCompile(`(?m)^sojourn: (waiting for a worker to (take|answer) .*|session \S+ (waits for|is paused:) .*|the agent is at work; .*|waiting for \S+ to answer|still listing)\n`)

// refused checks for one line and a hint, an exit code, and nothing on standard output.
// On a busy machine the command may have printed before that it waits.
func refused(t *testing.T, s said, code int, line, hint string) {
	t.Helper()
	require.Equal(t, code, s.code, s.err)
	require.Empty(t, s.out)
	lines := strings.Split(strings.TrimSpace(waitsFor.ReplaceAllString(s.err, "")), "\n")
	require.Len(t, lines, 2, s.err)
	require.Contains(t, lines[0], line)
	require.Contains(t, lines[1], "hint: ")
	require.Contains(t, lines[1], hint)
}

// requireNoTrace checks that a session was never created.
func requireNoTrace(t *testing.T, id string) {
	t.Helper()
	_, err := spaceOf(t).Client.Get(testContext(t), id)
	require.ErrorIs(t, err, session.ErrNotFound, "neither Temporal nor the archive has it")
	for ev, err := range spaceOf(t).Client.Events(testContext(t), id, 0, false) {
		require.Error(t, err, "there is an event: %s", ev.Type())
	}
	require.NotContains(t, listed(t, session.ListOptions{Children: true}), id)
}

// timelessJSON returns JSON text without times.
func timelessJSON(t *testing.T, text string) string {
	t.Helper()
	require.True(t, json.Valid([]byte(text)), text)
	return withoutKeys(t, json.RawMessage(text), "timestamp", "durationMs")
}

// tailReduced returns the output of `sojourn tail ID --json | sojourn reduce`.
func tailReduced(t *testing.T, id string) string {
	t.Helper()
	s := runProgram(t, "sojourn", sojourn(t, "tail", id, "--json"), nil, "reduce")
	require.Zero(t, s.code, s.err)
	return s.out
}

// eventful creates a session with every kind of block that a conversation may have.
func eventful(t *testing.T) string {
	t.Helper()
	ctx := testContext(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude", "--title", "Eventful"))
	h, err := spaceOf(t).Client.Get(ctx, id)
	require.NoError(t, err)
	for _, text := range []string{
		"TOOL write: notes.txt :: some notes", "THINK about it", "TWO", "TOOL bash: exit 3",
		"SUBAGENT TOOL bash: ls ANDTHEN SAY looked",
	} {
		sojourn(t, "send", id, text)
	}
	r, _ := sendToGate(ctx, t, h, "TOOL bash: echo before THEN ")
	sojourn(t, "interrupt", id, "--reason", "enough of it")
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Equal(t, 1, runProgram(t, "sojourn", "", nil, "send", id, "ERR400").code)
	require.NoError(t, spaceOf(t).Temporal.SignalWorkflow(ctx, id, "", session.SignalMessage, 17))
	sojourn(t, "spawn", id, "--agent", "claude", "SAY from the child")
	heardUntil(t, h, 0, first(func(p event.SubagentCompleted) bool { return p.ChildSessionID != "" }))
	sojourn(t, "send", id, "SAY the end")
	return id
}

// TestShowEqualsTailReduced: without a sandbox and a worker, the archived conversation
// that show prints equals the fold of the stream.
func TestShowEqualsTailReduced(t *testing.T) {
	skip.InShort(t, "TestRestoredEqualsLive compares the two through the client")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	id := eventful(t)
	sojourn(t, "close", id)
	require.NoError(t, w.stop())
	require.Empty(t, sandboxes(t, w))

	shown := sojourn(t, "show", id, "--json")
	require.JSONEq(t, timelessJSON(t, tailReduced(t, id)), timelessJSON(t, shown))
	for _, want := range []string{"some notes", "Let me think", "echo second", "looked", "scripted error 400", "from the child", "the end"} {
		require.Contains(t, shown, want)
	}
	require.JSONEq(t, shown, sojourn(t, "show", id, "--json", "--from", "archive"))
}

// TestShowEqualsTailReducedOfAnOpenSession: the same for a session that was not closed
// and whose worker has exited.
func TestShowEqualsTailReducedOfAnOpenSession(t *testing.T) {
	skip.InShort(t, "TestRestoredEqualsLive is the same of a closed one")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	id := eventful(t)
	want := timelessJSON(t, tailReduced(t, id))
	require.Eventually(t, func() bool {
		return timelessJSON(t, sojourn(t, "show", id, "--json", "--from", "archive")) == want
	}, patience, tick, "the archive settles within seconds")
	require.NoError(t, w.stop())
	require.JSONEq(t, want, timelessJSON(t, tailReduced(t, id)))
	require.JSONEq(t, want, timelessJSON(t, sojourn(t, "show", id, "--json")))
	require.JSONEq(t, want, timelessJSON(t, sojourn(t, "show", id, "--json", "--from", "archive")))
	startWorkerIn(t, w.dataDir)
	sojourn(t, "close", id)
}

// TestCommandLineJSON uses a session through the commands and checks the --json output
// that scripts rely on.
func TestCommandLineJSON(t *testing.T) {
	onSharedHost(t)
	id := "cli-" + uuid.NewString()
	var made struct {
		SessionID, Agent, Title string
		Metadata                map[string]any
		Tags                    []string
	}
	sojournJSON(t, &made, "new", "--agent", "claude", "--id", id, "--title", "By script", "--meta", "n=3", "--meta", "who=me", "--tag", "x")
	require.Equal(t, id, made.SessionID)
	require.Equal(t, "claude", made.Agent)
	require.Equal(t, "By script", made.Title)
	require.Equal(t, map[string]any{"n": 3.0, "who": "me"}, made.Metadata)
	require.Equal(t, []string{"x"}, made.Tags)

	var res session.Result
	sojournJSON(t, &res, "send", id, "SAY an answer", "--message-id", "m1")
	require.Equal(t, session.Completed, res.Outcome)
	require.Equal(t, "m1", res.MessageID)
	require.Equal(t, "an answer", res.Result.Response)
	var receipt session.Receipt
	sojournJSON(t, &receipt, "send", id, "SAY an answer", "--message-id", "m1", "--no-wait")
	require.Equal(t, session.Receipt{
		SessionID: id, MessageID: "m1", ExecutionID: res.ExecutionID, AfterSeq: receipt.AfterSeq, Digest: session.Message{Text: "SAY an answer"}.Digest(),
	}, receipt)

	requireEventLines(t, id, sojourn(t, "tail", id, "--json"))
	followed := sojourn(t, "send", id, "SAY followed", "--follow", "--json")
	require.Contains(t, last(strings.Split(strings.TrimSpace(followed), "\n")), `"type":"query:completed"`)

	var found []session.Summary
	sojournJSON(t, &found, "ls", "--query", "WorkflowId = '"+id+"'")
	require.Len(t, found, 1)
	require.Equal(t, id, found[0].SessionID)
	require.Equal(t, "By script", found[0].Title)
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	awaitIdle(t, h) // a turn counts once it is archived
	var snap session.Snapshot
	sojournJSON(t, &snap, "configure", id, "--title", "Renamed", "--meta", "n=4", "--idle-timeout", "1h")
	require.Equal(t, "Renamed", snap.Title)
	require.Equal(t, 2, snap.Turns)
	var stopped session.InterruptReply
	sojournJSON(t, &stopped, "interrupt", id)
	require.False(t, stopped.Running)
	var aborted struct {
		SessionID string
		IsAborted *bool
	}
	sojournJSON(t, &aborted, "clear-abort", id)
	require.Equal(t, id, aborted.SessionID)
	require.False(t, *aborted.IsAborted)
	var spawned session.SpawnReply
	sojournJSON(t, &spawned, "spawn", id, "--agent", "claude", "--description", "a child", "SAY child")
	require.NotEmpty(t, spawned.ChildID)
	requireCreated(t, spawned.ChildID)
	require.Equal(t, 1, spawned.Depth)
	requireEnds(t, id)
}

// requireEnds closes and reopens a session.
func requireEnds(t *testing.T, id string) {
	t.Helper()
	var end struct{ SessionID, Status string }
	sojournJSON(t, &end, "close", id)
	require.Equal(t, id, end.SessionID)
	require.Equal(t, "closed", end.Status)
	sojournJSON(t, &end, "close", id)
	require.Equal(t, "closed", end.Status, "closing a closed one succeeds")
	refused(t, runProgram(t, "sojourn", "", nil, "send", id, "SAY no"), 3, "closed", "sojourn open")
	var opened struct{ SessionID string }
	sojournJSON(t, &opened, "open", id)
	require.Equal(t, id, opened.SessionID)
	requireCreated(t, id)
	require.Contains(t, sojourn(t, "send", id, "RECALL"), "an answer")
	sojourn(t, "close", id)
}

// requireCreated checks that a list has the same time of a session's creation as its description.
func requireCreated(t *testing.T, id string) {
	t.Helper()
	var described struct{ CreatedAt time.Time }
	sojournJSON(t, &described, "describe", id)
	eventually(t, func(c *assert.CollectT) bool {
		page, err := spaceOf(t).Client.List(testContext(t), session.ListOptions{Query: "WorkflowId = '" + id + "'", Children: true})
		require.NoError(c, err)
		return len(page.Sessions) == 1 && page.Sessions[0].CreatedAt.Equal(described.CreatedAt)
	}, patience, tick, "the index has it a moment later")
}

// requireEventLines checks that the lines are a session's events as JSON, none missing.
func requireEventLines(t *testing.T, id, lines string) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		var ev struct {
			Type    string
			Payload map[string]any
			Context struct {
				SessionID, ConversationID, Source, Timestamp string
				Seq                                          int
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &ev), line)
		require.NotEmpty(t, ev.Type)
		require.NotNil(t, ev.Payload)
		require.Equal(t, id, ev.Context.SessionID)
		require.NotEmpty(t, ev.Context.ConversationID)
		require.Equal(t, i+1, ev.Context.Seq)
	}
}

// requireAgentsOfHosts checks that the command line lists, for every agent, what the
// worker's host has, wherever the command line runs.
func requireAgentsOfHosts(t *testing.T, w *worker) {
	t.Helper()
	nothingHere := []string{"PATH=/usr/bin:/bin"}
	var agents []struct {
		Name  string
		Hosts []struct{ Host, Version, Missing string }
	}
	eventually(t, func(c *assert.CollectT) bool {
		s := runProgram(t, "sojourn", "", nothingHere, "agents", "--json")
		require.Zero(t, s.code, s.err)
		// On a busy machine a program, or the host, may not answer in time; it is asked again.
		require.NotContains(c, s.out, "no answer within")
		agents = nil
		require.NoError(c, json.Unmarshal([]byte(s.out), &agents), s.out)
		for _, a := range agents {
			require.Len(c, a.Hosts, 1, "%s: %s", a.Name, s.err)
		}
		return true
	}, patience, tick, "each program answers with its version")
	host := regexp.MustCompile(`is ready: host (\S+),`).FindStringSubmatch(w.Said())[1]
	for _, a := range agents {
		require.Equal(t, host, a.Hosts[0].Host)
		if a.Name == "codex" || a.Name == "acp" {
			require.NotEmpty(t, a.Hosts[0].Missing, a.Name)
			continue
		}
		require.Empty(t, a.Hosts[0].Missing, a.Name)
		require.Regexp(t, `\d+\.\d+`, a.Hosts[0].Version, a.Name)
	}
	eventually(t, func(c *assert.CollectT) bool {
		doctor := runProgram(t, "sojourn", "", nothingHere, "doctor")
		require.Zero(c, doctor.code, doctor.out)
		require.Regexp(c, `(?m)^ok   agent claude +\d.* on host `+host+", ", doctor.out)
		require.Regexp(c, `(?m)^note agent codex +not on host `+host+": ", doctor.out)
		return true
	}, patience, tick, "the doctor has an answer of everyone")
}

// awaitReconciler waits until the first worker of a namespace has created the
// reconciler's schedule, which it does in the background.
func awaitReconciler(t *testing.T) {
	t.Helper()
	schedule := spaceOf(t).Temporal.ScheduleClient().GetHandle(testContext(t), session.ReconcilerSchedule)
	require.Eventually(t, func() bool {
		_, err := schedule.Describe(t.Context())
		return err == nil
	}, patience, tick, "the schedule of the reconciler")
}

// TestDoctorAndSetup: both print the address of every part, and that it works.
func TestDoctorAndSetup(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t, "SOJOURN_CODEX=/nowhere/codex")
	awaitReconciler(t)
	var report struct {
		OK     bool
		Checks []struct{ Name, Verdict, Detail string }
	}
	eventually(t, func(c *assert.CollectT) bool {
		// A worker that is ready may not have asked for work yet.
		s := program(t, "doctor", "--json")
		require.Zero(c, s.code, s.err)
		report.Checks = nil
		require.NoError(c, json.Unmarshal([]byte(s.out), &report), s.out)
		require.True(c, report.OK)
		verdicts := map[string]string{}
		for _, check := range report.Checks {
			verdicts[check.Name] = check.Verdict
			require.NotEmpty(t, check.Detail, check.Name)
		}
		for _, name := range []string{"temporal", "namespace", "search attributes", "worker", "stream", "archive"} {
			require.Equal(c, "ok", verdicts[name], name)
		}
		return true
	}, patience, tick)
	requireAgentsOfHosts(t, w)
	var done struct {
		Steps []struct {
			Name, Where string
			Made        []string
		}
	}
	sojournJSON(t, &done, "setup")
	require.Len(t, done.Steps, 4)
	for _, s := range done.Steps {
		require.Empty(t, s.Made, "%s: what is there stays", s.Name)
		require.NotEmpty(t, s.Where)
	}
}

// TestDoctorTriesFairness: the doctor finds out whether a server takes tasks by their fairness
// keys, and leaves nothing behind.
func TestDoctorTriesFairness(t *testing.T) {
	skip.InShort(t, "it starts a server of its own, and waits until that has deleted a workflow")
	withClaude(t)
	onSharedHost(t)
	tried := func(env ...string) string {
		return runProgram(t, "sojourn", "", env, "doctor", "--fairness").out
	}
	require.Regexp(t, `(?m)^ok   fairness +the server takes tasks by their fairness keys`, tried())

	off := newServer(t, "--temporal-config", "matching.enableFairness=false")
	address := off.env["TEMPORAL_ADDRESS"]
	without := tried("TEMPORAL_ADDRESS="+address, "TEMPORAL_NAMESPACE="+off.env["TEMPORAL_NAMESPACE"])
	require.Regexp(t, `(?m)^note fairness +the server takes tasks in their order.*\n +hint: set matching.enableFairness`, without)

	raw, err := client.Dial(client.Options{HostPort: address, Namespace: off.env["TEMPORAL_NAMESPACE"], Logger: silent{}})
	require.NoError(t, err)
	defer raw.Close()
	require.Eventually(t, func() bool {
		left, err := raw.CountWorkflow(testContext(t), &workflowservice.CountWorkflowExecutionsRequest{Query: "WorkflowType = 'SojournFairnessProbe'"})
		return err == nil && left.GetCount() == 0
	}, patience, tick)
}
