package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// command is a program that runs in the background of its test.
type command struct {
	t   *testing.T
	cmd *exec.Cmd

	mu   sync.Mutex
	errs bytes.Buffer
}

// Write appends what the program writes to standard error.
func (p *command) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.Write(b)
}

func (p *command) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.String()
}

// begin starts the command line.
func begin(t *testing.T, args ...string) *command {
	t.Helper()
	p := &command{t: t, cmd: exec.CommandContext(testContext(t), filepath.Join(shared.Bin, "sojourn"), args...)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "TEMPORAL_NAMESPACE="+spaceOf(t).Namespace), p
	require.NoError(t, p.cmd.Start())
	return p
}

// says waits until standard error has a text.
func (p *command) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.said(), text) }, patience, tick, "never said %q", text)
}

// stop sends a Ctrl-C and returns everything that the program printed.
func (p *command) stop() string {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(os.Interrupt))
	_ = p.cmd.Wait() // the exit code is checked elsewhere
	require.Equal(p.t, 1, p.cmd.ProcessState.ExitCode(), p.said())
	return p.said()
}

// TestSendPrintsTheWholeAnswer: an answer is printed whole, however long it is.
// Truncated copies are marked and name the block with the rest.
func TestSendPrintsTheWholeAnswer(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	const size = 50_000
	require.Len(t, strings.TrimSuffix(sojourn(t, "send", h.ID(), "BIG 50000"), "\n"), size)
	var res session.Result
	sojournJSON(t, &res, "send", h.ID(), "BIG 50000", "--message-id", "big")
	require.Len(t, res.Result.Response, size)
	require.False(t, res.Result.Truncated)

	awaitIdle(t, h)
	kept, err := h.Result(ctx, "big")
	require.NoError(t, err)
	require.True(t, kept.Result.Truncated, "the workflow keeps the beginning")
	require.Less(t, len(kept.Result.Response), size)
	for _, b := range fold(events(t, h)).Blocks {
		if b.ID == kept.Result.ResponseBlockID {
			require.Equal(t, res.Result.Response, *b.Content, "it names the block that has all of it")
			return
		}
	}
	require.Fail(t, "no such block", kept.Result.ResponseBlockID)
}

// TestSendStoppedBeforeAWorkerAnswered: it is unknown whether the message is accepted.
// It may run, and sending it again with its id doesn't run it twice.
func TestSendStoppedBeforeAWorkerAnswered(t *testing.T) {
	inOwnNamespace(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	word := "word-" + uuid.NewString()
	p := begin(t, "send", id, "SAY "+word)
	p.says("waiting for a worker to take")
	said := p.stop()
	require.Contains(t, said, "it may still run")
	at := regexp.MustCompile(`--message-id (\S+)`).FindStringSubmatch(said)
	require.NotNil(t, at, said)
	none := runProgram(t, "sojourn", "", nil, "describe", id)
	require.Contains(t, none.err, "no worker answers")
	require.Contains(t, none.err, "start a worker")

	startWorker(t)
	require.Equal(t, word+"\n", sojourn(t, "send", id, "SAY "+word, "--message-id", at[1]))
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	require.Equal(t, []string{at[1]}, answered(t, h), "it ran once")
	require.NoError(t, h.Close(testContext(t)))
}

// TestStoppedBeforeAWorkerAnswered: the same for an interrupt's message and for a
// child, each with its id.
func TestStoppedBeforeAWorkerAnswered(t *testing.T) {
	skip.InShort(t, "TestSendStoppedBeforeAWorkerAnswered is the same for a message")
	withClaude(t)
	inOwnNamespace(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	const task = "SAY said by the child"
	var said []string
	for _, args := range [][]string{{"interrupt", id, "--message", "SAY instead"}, {"spawn", id, "--agent", "claude", task}} {
		p := begin(t, args...)
		p.says("waiting for a worker to answer")
		said = append(said, p.stop())
		require.Contains(t, last(said), "stopped before session "+id+" confirmed")
		require.Contains(t, last(said), "it may still run")
	}
	require.Contains(t, said[0], "sojourn queue ls "+id)
	at := regexp.MustCompile(`sojourn spawn ` + id + ` TEXT --id (\S+)`).FindStringSubmatch(said[1])
	require.NotNil(t, at, said[1])

	startWorker(t)
	require.Equal(t, at[1]+"\n", sojourn(t, "spawn", id, "--agent", "claude", task, "--id", at[1]))
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	require.Len(t, payloads[event.SubagentSpawned](heardUntil(t, h, 0, nth[event.SubagentCompleted](1))), 1, "it ran once")
	require.NoError(t, h.Close(testContext(t)))
}

// TestSendTellsOfRetries: the failures of a model that refuses for minutes are printed,
// also while only waiting for the answer, and so are the agent's permission requests.
func TestSendTellsOfRetries(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: "ask"})
	p := begin(t, "send", h.ID(), "TOOL bash: touch asked-for.txt")
	p.says("sojourn respond")
	require.Contains(t, p.said(), "  command: touch asked-for.txt\n")
	at := regexp.MustCompile(`sojourn respond \S+ (\S+) allow`).FindStringSubmatch(p.said())
	require.NotNil(t, at, p.said())
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: at[1], Allow: true}))
	require.NoError(t, p.cmd.Wait(), p.said())

	p = begin(t, "send", h.ID(), "ERR401")
	p.says("model API error (401")
	p.says("retry 1 of ")
	require.Contains(t, p.stop(), "is accepted and runs on")
	_, err := h.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	awaitIdle(t, h)
	require.NoError(t, h.Close(ctx))
}

// TestWorkspaceIsCheckedOnItsHost: only the host can check a workspace folder, so the
// command line checks nothing on its own machine, and the turn fails with the reason
// until the folder exists.
func TestWorkspaceIsCheckedOnItsHost(t *testing.T) {
	onSharedHost(t)
	dir := filepath.Join(t.TempDir(), "later")
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude", "--workspace", dir))
	refused(t, runProgram(t, "sojourn", "", nil, "send", id, "SAY never"), 1, "workspace: "+dir, "sojourn show "+id)
	require.NoError(t, os.Mkdir(dir, 0o750))
	sojourn(t, "send", id, "TOOL write: made.txt :: by the agent")
	require.FileExists(t, filepath.Join(dir, "made.txt"))
	sojourn(t, "close", id)
}

// TestQueueCommands: queued messages are listed, changed, moved and cancelled from the
// command line. A command that waits for a cancelled message reports that.
func TestQueueCommands(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	_, gate := sendToGate(ctx, t, h, "SAY one THEN ")
	for _, id := range []string{"m2", "m3", "m4"} {
		sojourn(t, "send", h.ID(), "SAY "+id, "--no-wait", "--message-id", id)
	}
	given := begin(t, "send", h.ID(), "SAY m4", "--message-id", "m4")
	sojourn(t, "queue", "move", h.ID(), "m3", "1")
	sojourn(t, "queue", "edit", h.ID(), "m2", "SAY changed")
	sojourn(t, "queue", "cancel", h.ID(), "m4", "--reason", "not needed")
	given.says("not needed")
	require.Error(t, given.cmd.Wait(), "it was not answered")
	var waits []session.Message
	sojournJSON(t, &waits, "queue", "ls", h.ID())
	require.Equal(t, []session.Message{{ID: "m3", Text: "SAY m3"}, {ID: "m2", Text: "SAY changed"}}, waits)
	require.Regexp(t, `(?s)PLACE +MESSAGE +TEXT\n1 +m3 .*\n2 +m2 +SAY changed`, sojourn(t, "queue", "ls", h.ID()))

	taken := runProgram(t, "sojourn", "", nil, "send", h.ID(), "SAY other words", "--message-id", "m3")
	require.NotZero(t, taken.code)
	require.Contains(t, taken.err, "message id is taken by another message")
	gone := runProgram(t, "sojourn", "", nil, "queue", "cancel", h.ID(), "m4")
	require.NotZero(t, gone.code)
	require.Contains(t, gone.err, `"m4" does not wait`)

	spaceOf(t).Model.Open(gate)
	for id, want := range map[string]string{"m3": "m3", "m2": "changed"} {
		require.Equal(t, want, answeredWell(ctx, t, h, session.Receipt{SessionID: h.ID(), MessageID: id}).Result.Response)
	}
	require.Equal(t, []string{"m4", "m3", "m2"}, slices.DeleteFunc(answered(t, h), func(id string) bool { return !strings.HasPrefix(id, "m") }))
	sendToGate(ctx, t, h, "SAY again THEN ")
	sojourn(t, "send", h.ID(), "SAY m5", "--no-wait", "--message-id", "m5")
	require.Contains(t, sojourn(t, "interrupt", h.ID(), "--clear-queue"), "message m5 is cancelled: SAY m5")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestAQueuedEndLeavesRequests: a message that is taken out of the queue ends no request of the turn that
// runs.
func TestAQueuedEndLeavesRequests(t *testing.T) {
	skip.InShort(t, "TestShowOfAnOldSessionHasItsOpenRequests has the rule")
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch there.txt")
	require.NoError(t, h.Queue(ctx, session.Message{ID: "m2", Text: "SAY later"}))
	_, err := h.EditQueue(ctx, session.QueueEdit{MessageID: "m2", Cancel: true, Reason: "not needed"})
	require.NoError(t, err)
	heardUntil(t, h, 0, func(e event.Event) bool {
		p, ended := e.Payload.(event.QueryInterrupted)
		return ended && p.Queued && slices.Contains(p.MessageIDs, "m2")
	})
	conv, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromAuto)
	require.NoError(t, err)
	require.Len(t, conv.Asks, 1)
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true}))
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}
