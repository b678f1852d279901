package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// webUI drives a browser through the Web UI and returns what it printed. Tests that
// need it are skipped without a browser or a driver.
func webUI(t *testing.T, args ...string) string {
	t.Helper()
	requireBrowser(t)
	cmd := exec.CommandContext(testContext(t), "node", append([]string{filepath.Join("..", "webui", "drive.mjs")}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	require.NoError(t, cmd.Run(), "%s: %s", strings.Join(args, " "), &said)
	if said.Len() > 0 {
		t.Log(said.String())
	}
	return out.String()
}

// requireBrowser skips the test without a browser, and names what to install.
func requireBrowser(t *testing.T) {
	t.Helper()
	chromium := os.Getenv("SOJOURN_CHROMIUM")
	if chromium == "" {
		chromium = "chromium"
	}
	for program, install := range map[string]string{chromium: "apt-get install chromium", "node": "install Node.js 20 or newer"} {
		if _, err := exec.LookPath(program); err != nil {
			skip.Without(t, fmt.Sprintf("%v: %s", err, install))
		}
	}
	if _, err := os.Stat(filepath.Join("..", "webui", "node_modules", "playwright-core")); err != nil {
		skip.Without(t, "the browser's driver: test/webui/install.sh installs it")
	}
}

// picture returns the path for a picture: in SOJOURN_PICTURES (docs/img, to renew the
// pictures of the documentation), or else in a temporary folder.
func picture(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SOJOURN_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	return path
}

// requirePicture checks that a picture is small enough for a repository.
func requirePicture(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(data, []byte("\x89PNG")))
	require.Less(t, len(data), 400<<10)
}

// openNamed creates a session with an id that reads well in a picture.
func openNamed(t *testing.T, name, title string) *session.Handle {
	t.Helper()
	h, err := spaceOf(t).Client.Create(testContext(t), name+"-"+uuid.NewString()[:8], session.Options{Agent: "claude", Title: title})
	require.NoError(t, err)
	return h
}

// TestWebUISignalIsAnswered sends a message with the Web UI's own dialog, in both
// forms.
func TestWebUISignalIsAnswered(t *testing.T) {
	skip.InShort(t, "TestWebUIShowsARunningSession has the browser, TestRawSignalIsAnswered the signal")
	requireBrowser(t)
	onSharedHost(t)
	h := openNamed(t, "billing", "Refactor the billing module")
	require.NoError(t, say(t, h, "SAY ready").Err())
	for _, c := range []struct{ file, json, want string }{
		{"signal-dialog.png", `{"text": "SAY hello, operator"}`, "hello, operator"},
		{"signal-dialog-string.png", `"SAY a plain string will do"`, "a plain string will do"},
	} {
		out := filepath.Join(t.TempDir(), c.file)
		if c.file == "signal-dialog.png" {
			out = picture(t, c.file)
		}
		webUI(t, "signal", shared.Env["SOJOURN_UI_URL"], h.ID(), "message", c.json, out)
		heardUntil(t, h, 0, answers(c.want))
		requirePicture(t, out)
	}
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// TestWebUIShowsARunningSession: an operator sees title, agent, status, turns, cost and
// the last block of a session during its turn.
func TestWebUIShowsARunningSession(t *testing.T) {
	requireBrowser(t)
	onSharedHost(t)
	ctx := testContext(t)
	h := openNamed(t, "billing", "Refactor the billing module")
	require.NoError(t, say(t, h, "THINK about how invoices are added up").Err())
	require.NoError(t, say(t, h, "TOOL write: billing/invoice.go :: package billing").Err())
	r, gate := runToGate(ctx, t, h, "TOOL bash: wc -l billing/invoice.go")
	snap, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, snap.Turns)
	require.Positive(t, *snap.CostUSD)
	cost := fmt.Sprintf("$%.4f", *snap.CostUSD)
	require.Eventually(t, func() bool { return beatHas("result: 1 billing/invoice.go")(pendingTurn(ctx, t, h.ID())) }, patience, tick, "the page has what the heartbeat has")

	running, details := picture(t, "session-running.png"), picture(t, "session-details.png")
	page := webUI(t, "shot", shared.Env["SOJOURN_UI_URL"], h.ID(), running)
	requireFacts(t, page, "Refactor the billing module", "claude", `"phase": "running"`, "turn 3", cost,
		`"lastBlock": "result: 1 billing/invoice.go"`)
	requirePicture(t, running)
	t.Run("details", func(t *testing.T) {
		skip.InShort(t, "of the session's pages, that of its running activity")
		page := webUI(t, "details", shared.Env["SOJOURN_UI_URL"], h.ID(), details)
		requireFacts(t, page, "Refactor the billing module", "Agent: claude", "Status: running", "Turns: 2", "Cost: "+cost, "Last block: ")
		requirePicture(t, details)
	})

	spaceOf(t).Model.Open(gate)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.NoError(t, h.Close(ctx))
}

// runToGate starts a turn that runs steps and then waits, and returns when the steps'
// result has been received and the turn waits.
func runToGate(ctx context.Context, t *testing.T, h *session.Handle, steps string) (session.Receipt, string) {
	t.Helper()
	gate := "gate-" + h.ID()
	r, err := h.Send(ctx, session.Message{Text: steps + " THEN GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	heardUntil(t, h, r.AfterSeq, func(ev event.Event) bool {
		up, ok := ev.Payload.(event.BlockUpsert)
		return ok && up.Block.Type == event.BlockToolResult
	})
	return r, gate
}

func requireFacts(t *testing.T, page string, facts ...string) {
	t.Helper()
	for _, fact := range facts {
		require.Contains(t, page, fact)
	}
}

// TestManyQueriesAtOnce: queries that find a session's workflow task in progress all wait
// for it; at the server's stock setting all but one are refused, and the Web UI, which does
// not ask again, shows the refusal.
func TestManyQueriesAtOnce(t *testing.T) {
	inOwnNamespace(t)
	k := startKillable(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY ready").Err())
	awaitIdle(t, h)
	require.NoError(t, k.now.Kill())
	ctx := testContext(t)
	temporal := spaceOf(t).Temporal
	// Its workflow task waits for a worker.
	require.NoError(t, temporal.SignalWorkflow(ctx, h.ID(), "", session.SignalMessage, "SAY hello"))
	answered := make(chan error, 8)
	for range cap(answered) {
		go func() {
			_, err := temporal.WorkflowService().QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{
				Namespace: spaceOf(t).Namespace, Execution: &common.WorkflowExecution{WorkflowId: h.ID()},
				Query: &query.WorkflowQuery{QueryType: session.QuerySnapshot},
			})
			answered <- err
		}()
	}
	k.start()
	for range cap(answered) {
		require.NoError(t, <-answered)
	}
	require.NoError(t, h.Close(ctx))
}
