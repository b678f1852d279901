package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// TestBadInputOfTheCommandLine: one clear line with a hint, the right exit code, and no
// trace of a half-created session.
func TestBadInputOfTheCommandLine(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	events(t, h)
	var before []string
	require.Eventually(t, func() bool { before = listed(t, session.ListOptions{Children: true}); return contains(before, id) }, patience, tick)
	fresh := "bad-" + uuid.NewString()
	long := strings.Repeat("x", session.MaxMessageBytes)
	for _, c := range []struct {
		name, stdin, line, hint string
		code                    int
		args                    []string
	}{
		{"unknown session", "", "no such session", "sojourn ls --all", 1, []string{"send", "never-was", "SAY hi"}},
		{"unknown session, close", "", "no such session", "sojourn ls --all", 1, []string{"close", "never-was"}},
		{"unknown session, open", "", "no such session", "sojourn ls --all", 1, []string{"open", "never-was"}},
		{"unknown session, show", "", "no such session", "sojourn ls --all", 1, []string{"show", "never-was"}},
		{"unknown session, tail", "", "no such session", "sojourn ls --all", 1, []string{"tail", "never-was"}},
		{"unknown session, chat", "", "no such session", "sojourn ls --all", 1, []string{"chat", "never-was"}},
		{"bad id", "", "id: ", "1 to 64", 2, []string{"send", "a/b", "SAY hi"}},
		{"bad id, new", "", "--id: ", "1 to 64", 2, []string{"new", "--agent", "claude", "--id", "a b"}},
		{"taken id", "", "exists", "choose another --id", 3, []string{"new", "--agent", "claude", "--id", id}},
		{"empty message", "", "message.text: is empty", "some text", 2, []string{"send", id, "  "}},
		{"empty message, stdin", "\n", "message.text: is empty", "some text", 2, []string{"send", id, "-"}},
		{"over the limit", long, "message: is ", "at most", 2, []string{"send", id, "-"}},
		{"unknown agent", "", `unknown agent "nobody"`, "claude", 2, []string{"new", "--agent", "nobody", "--id", fresh}},
		{"unknown profile", "", "profile", "a folder's name in SOJOURN_PROFILES", 2, []string{"new", "--agent", "claude", "--profile", "nope", "--id", fresh}},
		{"unknown permission", "", "--permission: ", "allow, ask or deny", 2, []string{"new", "--agent", "claude", "--permission", "maybe", "--id", fresh}},
		{"unknown command", "", `unknown command "sned"`, "or send?", 2, []string{"sned", id}},
		{"unknown flag", "", "unknown flag: --wait", "--help", 2, []string{"send", id, "SAY hi", "--wait"}},
		{"unknown policy", "", "--when-busy: ", "queue, interrupt, reject or steer", 2, []string{"send", id, "SAY hi", "--when-busy", "later"}},
		{"unknown query", "", "--query: ", "SojournStatus", 2, []string{"ls", "--query", "Nonsense = 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, runProgram(t, "sojourn", c.stdin, nil, c.args...), c.code, c.line, c.hint)
		})
	}
	requireNoTrace(t, fresh)
	requireNoTrace(t, "never-was")
	require.ElementsMatch(t, before, listed(t, session.ListOptions{Children: true}))
	require.Empty(t, sandboxes(t, w))
	for _, ev := range history(t, h) {
		require.NotContains(t, ev.GetEventType().String(), "Update", "refused before history")
	}
	require.NoError(t, h.Close(testContext(t)))
}

// TestNoAgentOnTheHost: the turn fails with one line that names what to install, and no
// sandbox remains.
func TestNoAgentOnTheHost(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t, "PATH=/usr/bin:/bin")
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	s := runProgram(t, "sojourn", "", nil, "send", id, "SAY never")
	refused(t, s, 1, "install Claude Code (npm install -g @anthropic-ai/claude-code)", "sojourn show "+id)
	require.NotContains(t, s.err, "activity", "in words of a person")
	require.Empty(t, sandboxes(t, w))
	require.Contains(t, sojourn(t, "show", id), "npm install -g @anthropic-ai/claude-code", "and it is in the conversation")
	sojourn(t, "close", id)
	requireParity(t, id)
}

// away returns the servers, each as an unreachable one.
func away(t *testing.T) []struct{ name, env, addr, hint string } {
	t.Helper()
	addr := teststack.ClosedAddress(t)
	return []struct{ name, env, addr, hint string }{
		{"Temporal", "TEMPORAL_ADDRESS=" + addr, addr, "TEMPORAL_ADDRESS"},
		{"NATS", "NATS_URL=nats://" + addr, addr, "NATS_URL"},
		{"S3", "AWS_ENDPOINT_URL_S3=http://" + addr, addr, "AWS_ENDPOINT_URL_S3"},
	}
}

// TestServersAwayAtTheCommandLine: a command that needs an unreachable server names it
// and leaves nothing.
func TestServersAwayAtTheCommandLine(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude"))
	h, err := spaceOf(t).Client.Get(testContext(t), id)
	require.NoError(t, err)
	for _, c := range away(t) {
		t.Run(c.name, func(t *testing.T) {
			fresh := "away-" + uuid.NewString()
			args := []string{"new", "--agent", "claude", "--id", fresh}
			if c.name == "NATS" {
				args = []string{"send", id, "SAY never"}
			}
			tried := runProgram(t, "sojourn", "", []string{c.env}, args...)
			refused(t, tried, 1, c.addr, c.hint)
			require.Contains(t, tried.err, c.name)
			requireNoTrace(t, fresh)
		})
	}
	for _, ev := range history(t, h) {
		require.NotContains(t, ev.GetEventType().String(), "Update", "nothing was sent")
	}
	require.NoError(t, h.Close(testContext(t)))
}

// TestServersAwayAtTheWorkersStart: the worker names the unreachable server within
// seconds, and exits.
func TestServersAwayAtTheWorkersStart(t *testing.T) {
	inOwnNamespace(t)
	before := listed(t, session.ListOptions{Children: true})
	for _, c := range away(t) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			tried := runProgram(t, "sojourn-worker", "", []string{c.env, "SOJOURN_DATA_DIR=" + dir, "HOME=" + dir})
			refused(t, tried, 1, c.addr, c.hint)
			require.Contains(t, tried.err, c.name)
			left, err := filepath.Glob(filepath.Join(dir, "sandboxes", "*"))
			require.NoError(t, err)
			require.Empty(t, left)
			for _, name := range []string{"bookmarks", "run"} {
				entries, err := os.ReadDir(filepath.Join(dir, name))
				require.True(t, err != nil || len(entries) == 0, name)
			}
		})
	}
	require.ElementsMatch(t, before, listed(t, session.ListOptions{Children: true}))
}
