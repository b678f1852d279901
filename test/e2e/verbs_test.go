package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// program runs sojourn, which may fail.
func program(t *testing.T, args ...string) said {
	t.Helper()
	return runProgram(t, "sojourn", "", nil, args...)
}

// TestWaitingVerbs: a script waits for a session and for a message, takes results, and
// gets the outcome by the exit code.
func TestWaitingVerbs(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	none := program(t, "result", h.ID())
	refused(t, none, 1, "session "+h.ID()+": no turn has ended yet", "send it a message")

	r, gate := sendToGate(ctx, t, h, "SAY one THEN ")
	var late said
	for timeout := time.Second; ; timeout *= 2 { // on a busy machine one second is too short to be accepted, or to connect
		late = program(t, "send", h.ID(), "SAY two", "--message-id", "two", "--timeout", timeout.String())
		require.Equal(t, 5, late.code, late.err)
		require.Contains(t, late.err, "timed out after "+timeout.String())
		if strings.Contains(late.err, "; message two is accepted and runs on") {
			break
		}
		require.Less(t, timeout, patience, late.err)
	}
	require.Contains(t, late.err, "sojourn wait "+h.ID()+" two")
	late = program(t, "wait", h.ID(), "--timeout", "1s")
	require.Equal(t, 5, late.code, late.err)
	require.Equal(t, 3, program(t, "send", h.ID(), "SAY never", "--when-busy", "reject").code, "refused")
	busy := program(t, "result", h.ID(), "two")
	require.Equal(t, 3, busy.code, busy.err)

	answer, idle := begin(t, "wait", h.ID(), "two"), begin(t, "wait", h.ID())
	spaceOf(t).Model.Open(gate)
	require.NoError(t, answer.cmd.Wait(), answer.said())
	require.NoError(t, idle.cmd.Wait(), idle.said())
	require.Equal(t, "two\n", sojourn(t, "wait", h.ID(), "two"), "also after its end")
	require.Equal(t, "two\n", sojourn(t, "result", h.ID()), "the last one")
	first, err := h.Wait(ctx, r)
	require.NoError(t, err)
	var again session.Result
	sojournJSON(t, &again, "result", h.ID(), r.MessageID)
	require.Equal(t, first.Result.Response, again.Result.Response)
	require.Equal(t, first.Result.Response+"\n", sojourn(t, "wait", h.ID(), r.ExecutionID), "by its execution's id")

	_, _ = sendToGate(ctx, t, h, "SAY three THEN ")
	for _, verb := range []string{"wait", "result"} {
		refused(t, program(t, verb, h.ID(), "nothing"), 1, `session `+h.ID()+`: no message or execution "nothing"`, "the id of a message")
	}
	sojourn(t, "interrupt", h.ID(), "--reason", "enough")
	require.Contains(t, sojourn(t, "wait", h.ID()), "is idle")
	cut := program(t, "result", h.ID())
	require.Equal(t, 4, cut.code, cut.err)
	require.Contains(t, cut.err, "was interrupted: enough")

	sojourn(t, "evict", h.ID())
	var s session.Snapshot
	sojournJSON(t, &s, "describe", h.ID())
	require.Nil(t, s.Sandbox, "it was terminated")
	require.NoError(t, h.Close(ctx))
	require.Equal(t, 3, program(t, "wait", h.ID()).code, "closed")
}

// TestWhatWaitsForAPerson: a session's request is in the inbox and in its description
// with everything that is asked, and a prefix of the id identifies the session.
func TestWhatWaitsForAPerson(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	require.Contains(t, program(t, "inbox").err, "nothing waits for a person")
	h := open(t, session.Options{Agent: "claude", Permission: "ask", Title: "Careful"})
	sojourn(t, "send", h.ID(), "TOOL bash: touch asked-for.txt", "--no-wait", "--message-id", "m1")
	asked := payloads[event.PermissionRequested](heardUntil(t, h, 0, nth[event.PermissionRequested](1)))[0]
	sojourn(t, "send", h.ID(), "SAY later", "--no-wait", "--message-id", "m2")

	var inbox []struct {
		SessionID string                    `json:"sessionId"`
		Request   event.PermissionRequested `json:"request"`
	}
	require.Eventually(t, func() bool {
		sojournJSON(t, &inbox, "inbox")
		return len(inbox) == 1
	}, patience, tick, "the index has it a moment later")
	require.Equal(t, h.ID(), inbox[0].SessionID)
	require.JSONEq(t, string(asked.Input), string(inbox[0].Request.Input))
	require.Regexp(t, `(?m)^`+h.ID()+` +Careful +`+asked.RequestID+`  Bash .*touch asked-for.txt`, sojourn(t, "inbox"))

	described := program(t, "describe", h.ID()[:8])
	require.Zero(t, described.code, described.err)
	require.Contains(t, described.err, "sojourn: session "+h.ID())
	for _, want := range []string{`session +` + h.ID(), `status +waiting`, `host +\S+, sandbox `, `queue +1  m2  SAY later`, `requests +` + asked.RequestID + `  Bash .*touch asked-for.txt`, `archive +`} {
		require.Regexp(t, `(?m)^`+want, described.out)
	}
	var d map[string]json.RawMessage
	sojournJSON(t, &d, "describe", h.ID())
	require.Contains(t, string(d["requests"]), "touch asked-for.txt")

	sojourn(t, "respond", h.ID()[:8], asked.RequestID, "allow")
	require.Contains(t, sojourn(t, "wait", h.ID()), "is idle")
	require.Empty(t, strings.TrimSpace(sojourn(t, "inbox")))
	twin := open(t, session.Options{Agent: "claude"})
	require.Equal(t, 1, program(t, "describe", "zzzzzz").code)
	for _, h := range []*session.Handle{h, twin} {
		require.NoError(t, h.Close(ctx))
	}
}
