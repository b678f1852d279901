package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

// parked asks for a command and returns when its turn is parked: the request is open,
// and there is no sandbox.
func parked(t *testing.T, h *session.Handle, command string) (session.Receipt, session.Inspection) {
	t.Helper()
	r, asked := asksFor(t, h, "TOOL bash: "+command)
	return r, awaitParked(t, h, asked.RequestID)
}

func awaitParked(t *testing.T, h *session.Handle, request string) (i session.Inspection) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool {
		var err error
		i, err = h.Inspect(testContext(t))
		require.NoError(c, err)
		return i.Parked != nil && i.Sandbox == nil
	}, patience, tick)
	require.Equal(t, session.StatusWaiting, i.Status)
	require.Equal(t, "parked", i.Phase)
	require.Equal(t, []string{request}, i.Pending)
	require.Equal(t, []string{request}, i.Parked.Open())
	return i
}

// workspaceFiles returns the files that match pattern in all workspaces of a session on
// a worker's host.
func workspaceFiles(t *testing.T, dataDir, id, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dataDir, "sandboxes", id+"-*", "workspace", pattern))
	require.NoError(t, err)
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// subtypes returns the subtypes of a session's system blocks.
func subtypes(t *testing.T, h *session.Handle) (out []string) {
	t.Helper()
	for _, b := range fold(events(t, h)).Blocks {
		if b.Type == event.BlockSystem && (b.Subtype == "parked" || b.Subtype == "resumed") {
			out = append(out, b.Subtype)
		}
	}
	return out
}

// TestR21AnsweredAfterWeeks: a request is open for so long that the turn is parked and
// its host is lost. The answer resumes the same execution on another host: allowed,
// denied, and allowed with another command. No call is asked about twice.
func TestR21AnsweredAfterWeeks(t *testing.T) {
	inOwnNamespace(t)
	dir := hostDir(t)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	first := startWorkerIn(t, dir)
	type asked struct {
		h *session.Handle
		r session.Receipt
		i session.Inspection
	}
	waiting := map[string]asked{}
	for _, a := range scripted() {
		if !a.Info().Capabilities.Approve {
			continue
		}
		h := open(t, session.Options{Agent: a.Info().Name, Permission: adapters.PermissionAsk, Park: 1000})
		r, i := parked(t, h, "touch allowed.txt")
		waiting[a.Info().Name] = asked{h, r, i}
	}
	require.NoError(t, first.stop())
	require.NoError(t, os.RemoveAll(dir))
	second := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		w, asks := waiting[a.Info().Name]
		if !asks {
			t.Logf("%s lacks: approve", a.Info().Name)
			return
		}
		h := w.h
		require.Contains(t, sojourn(t, "describe", h.ID()), "touch allowed.txt")
		sojourn(t, "respond", h.ID(), w.i.Pending[0], "allow", "--by", "anna")
		require.NoError(t, h.Respond(testContext(t), session.RespondRequest{RequestID: w.i.Pending[0]}), "the first answer counts")
		res := answeredWell(testContext(t), t, h, w.r)
		require.Equal(t, w.r.ExecutionID, res.ExecutionID)
		require.Equal(t, []string{"allowed.txt"}, workspaceFiles(t, second.dataDir, h.ID(), "*.txt"))
		require.Equal(t, []string{"allow by anna", "allow by anna"}, decisions(t, h), "the call asked again is answered by that, once")
		require.Equal(t, []string{"parked", "resumed"}, subtypes(t, h))

		r, i := parked(t, h, "touch denied.txt")
		require.NoError(t, h.Respond(testContext(t), session.RespondRequest{RequestID: i.Pending[0], Message: "ask the harbour master"}))
		require.Contains(t, answeredWell(testContext(t), t, h, r).Result.Response, "ask the harbour master", "the agent got the answer")
		require.Equal(t, []string{"allowed.txt"}, workspaceFiles(t, second.dataDir, h.ID(), "*.txt"))

		r, i = parked(t, h, "touch wrong.txt")
		sojourn(t, "respond", h.ID(), i.Pending[0], "allow", "--input", `{"command": "touch right.txt"}`)
		require.Eventually(t, func() bool { return !slices.Contains(inspection(t, h).Pending, i.Pending[0]) }, patience, tick)
		// Not every agent requests with the input that it was given: then a person is
		// asked about the new call, possibly when the turn is parked again.
		for open := awaitAskedOrDone(t, h, r); len(open) > 0; open = awaitAskedOrDone(t, h, r) {
			answer := session.RespondRequest{RequestID: open[0], Allow: true}
			if requestIsAbout(t, h, open[0], "wrong.txt") {
				// It was stopped before it wrote the message down, has it anew and asks the
				// same. Where no running tool's arguments can be changed: when it is parked.
				answer.Input = json.RawMessage(`{"command": "touch right.txt"}`)
			}
			require.Eventually(t, func() bool { return h.Respond(testContext(t), answer) == nil }, patience, tick)
		}
		answeredWell(testContext(t), t, h, r)
		require.Equal(t, []string{"allowed.txt", "right.txt"}, workspaceFiles(t, second.dataDir, h.ID(), "*.txt"))

		require.Len(t, ends(events(t, h)), 3, "one end for each execution")
		require.NoError(t, h.Close(testContext(t)))
		requireSameBlocks(t, h.ID())
	})
}

func inspection(t *testing.T, h *session.Handle) session.Inspection {
	t.Helper()
	ctx := testContext(t)
	return answerOf(t, func() (session.Inspection, error) { return h.Inspect(ctx) })
}

// requestIsAbout reports whether a permission request is about something.
func requestIsAbout(t *testing.T, h *session.Handle, id, what string) bool {
	t.Helper()
	return slices.ContainsFunc(payloads[event.PermissionRequested](events(t, h)), func(p event.PermissionRequested) bool {
		return p.RequestID == id && strings.Contains(string(p.Input), what)
	})
}

// awaitAskedOrDone returns the open requests, once there are any or the execution has
// ended.
func awaitAskedOrDone(t *testing.T, h *session.Handle, r session.Receipt) (open []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		i := inspection(t, h)
		open = i.Pending
		return len(open) > 0 || i.CurrentExecution != r.ExecutionID
	}, patience, tick)
	return open
}

// ends returns the events that end executions.
func ends(all []event.Event) (out []event.Event) {
	for _, ev := range all {
		switch ev.Payload.(type) {
		case event.QueryCompleted, event.QueryFailed, event.QueryInterrupted:
			out = append(out, ev)
		}
	}
	return out
}
