package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// scripted returns the agents that the environment alone points to the scripted model;
// the generic one also needs a command. A short run has one of them.
func scripted() []adapters.Adapter {
	var out []adapters.Adapter
	for _, name := range builtin.Registry().Names() {
		if a, err := builtin.Registry().Get(name); err == nil && name != "acp" && !leftOut(a) {
			out = append(out, a)
		}
	}
	return out
}

// leftOut reports whether a short run leaves out the agent, which its conformance suite
// covers.
func leftOut(a adapters.Adapter) bool { return testing.Short() && a.Info().Name != "codex" }

// eachAgent runs a test with every agent, all in parallel.
func eachAgent(t *testing.T, test func(t *testing.T, a adapters.Adapter)) {
	t.Helper()
	t.Run("agents", func(t *testing.T) {
		for _, a := range scripted() {
			t.Run(a.Info().Name, func(t *testing.T) {
				inParallel(t)
				test(t, a)
			})
		}
		if testing.Short() {
			t.Run("others", func(t *testing.T) { skip.InShort(t, "of the agents, codex; the conformance suites have the others") })
		}
	})
}

// TestEveryAgentTellsTheSame: the agent is an option, and nothing else depends on it:
// the same prompts produce the same kinds of blocks, and the archived conversation
// equals the live one.
func TestEveryAgentTellsTheSame(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		h := open(t, session.Options{Agent: a.Info().Name, Title: "told by " + a.Info().Name})
		require.Equal(t, "plain words", say(t, h, "SAY plain words").Result.Response)
		require.NoError(t, say(t, h, "THINK about parity").Err())
		require.NoError(t, say(t, h, "TOOL write: kept.txt :: some text").Err())
		files, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "workspace", "kept.txt"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, say(t, h, "TOOL bash: echo out; exit 3").Err())
		require.NoError(t, say(t, h, "TWO").Err())
		require.NoError(t, say(t, h, "SUBAGENT TOOL bash: ls ANDTHEN SAY looked around").Err())
		failed := say(t, h, "ERR400")
		require.Equal(t, session.Failed, failed.Outcome)
		require.NotEmpty(t, failed.Error.Message)
		require.Contains(t, say(t, h, "RECALL").Result.Response, "plain words")
		require.NoError(t, h.Close(testContext(t)))

		live, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromStream)
		require.NoError(t, err)
		kinds := map[event.BlockType]int{}
		for _, b := range live.State.Blocks {
			kinds[b.Type]++
			require.NotEqual(t, event.StatusPending, b.Status, "%s %s", b.Type, b.ID)
		}
		require.Equal(t, 8, kinds[event.BlockUserMessage], "%v", kinds)
		require.NotZero(t, kinds[event.BlockThinking], "%v", kinds)
		require.Equal(t, kinds[event.BlockToolUse], kinds[event.BlockToolResult], "%v", kinds)
		require.GreaterOrEqual(t, kinds[event.BlockToolUse], 4, "%v", kinds)
		require.NotZero(t, kinds[event.BlockError], "%v", kinds)
		require.Len(t, live.State.Subagents, 1)
		require.EqualValues(t, "success", live.State.Subagents[0].Status)
		require.NotEmpty(t, live.State.Subagents[0].Blocks, "the subagent's own conversation")
		requireParity(t, h.ID())
	})
}

// TestEveryAgentGoesOnElsewhere: without its sandbox and its host's data folder, a
// session continues on a second host from its archive in S3, and remembers its first
// message.
func TestEveryAgentGoesOnElsewhere(t *testing.T) {
	skip.InShort(t, "TestKillHost goes on elsewhere too")
	withClaude(t)
	inOwnNamespace(t)
	dir := hostDir(t)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	w := startWorkerIn(t, dir)
	begun := map[string]*session.Handle{}
	for _, a := range scripted() {
		begun[a.Info().Name] = open(t, session.Options{Agent: a.Info().Name})
	}
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		h := begun[a.Info().Name]
		require.NoError(t, say(t, h, "SAY remember the word mulberry").Err())
		require.NoError(t, say(t, h, "TOOL bash: echo work").Err())
		awaitIdle(t, h)
		require.NoError(t, h.Evict(testContext(t)))
		heardUntil(t, h, 0, first(func(event.EETerminated) bool { return true }))
	})
	require.NoError(t, w.stop())
	require.NoError(t, os.RemoveAll(dir))

	second := startWorker(t)
	require.NotEqual(t, dir, second.dataDir)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		h := begun[a.Info().Name]
		res := say(t, h, "RECALL")
		require.NoError(t, res.Err())
		require.Contains(t, res.Result.Response, "mulberry")
		require.NoError(t, say(t, h, "TOOL bash: echo more").Err())
		require.NoError(t, h.Close(testContext(t)))
		requireParity(t, h.ID())
	})
}

// TestEveryAgentIsInterrupted: a running tool ends with its turn, and the same process
// takes the next message.
func TestEveryAgentIsInterrupted(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name})
		require.NoError(t, say(t, h, "SAY warm").Err())
		r, err := h.Send(ctx, session.Message{Text: "TOOL bash: echo begun > begun; sleep 600; echo ended > ended"})
		require.NoError(t, err)
		workspace := filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "workspace")
		require.Eventually(t, func() bool {
			found, err := filepath.Glob(filepath.Join(workspace, "begun"))
			return err == nil && len(found) == 1
		}, patience, tick)
		_, err = h.Interrupt(ctx, session.InterruptRequest{Reason: "changed my mind"})
		require.NoError(t, err)
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Outcome)
		left, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(left, func(file string) bool {
			line, err := os.ReadFile(file)
			env, enverr := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
			return err == nil && enverr == nil && string(line) == "sleep\x00600\x00" && bytes.Contains(env, []byte(h.ID()))
		}), "nothing that the turn started is left")
		again := say(t, h, "SAY still here")
		require.Equal(t, "still here", again.Result.Response)
		require.Equal(t, 0, last(restarts(t, h)), "the same process")
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
	})
}

// TestEveryAgentAsks: an agent that asks for permission waits for a person, does what
// is allowed and not what is denied.
func TestEveryAgentAsks(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		if !a.Info().Capabilities.Approve {
			t.Logf("%s lacks: approve", a.Info().Name)
			return
		}
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name, Permission: adapters.PermissionAsk})
		for _, allow := range []bool{true, false} {
			name := map[bool]string{true: "allowed.txt", false: "denied.txt"}[allow]
			r, asked := asksFor(t, h, "TOOL bash: touch "+name)
			place := filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "workspace", name)
			found, err := filepath.Glob(place)
			require.NoError(t, err)
			require.Empty(t, found, "nothing runs before the answer")
			require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: allow, Message: "not today"}))
			_, err = h.Wait(ctx, r)
			require.NoError(t, err)
			found, err = filepath.Glob(place)
			require.NoError(t, err)
			require.Equal(t, allow, len(found) == 1, name)
		}
		var decisions []string
		for _, p := range payloads[event.PermissionResolved](events(t, h)) {
			decisions = append(decisions, p.Decision)
		}
		require.Equal(t, []string{"allow", "deny"}, decisions)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
	})
}

// TestR13SessionsAreTypedByArchitecture: a session's record, its list entry and its
// first event name the agent, which means one architecture, and refer to the profile.
func TestR13SessionsAreTypedByArchitecture(t *testing.T) {
	store := "SOJOURN_PROFILES=" + writeProfile(t)
	onSharedHost(t)
	architectures := map[string]string{
		"claude": "claude-agent-sdk", "gemini": "gemini-cli", "opencode": "opencode", "codex": "codex-sdk", "acp": "acp",
	}
	require.Len(t, architectures, len(builtin.Registry().Names()))
	for _, name := range builtin.Registry().Names() {
		made := runProgram(t, "sojourn", "", []string{store}, "new", "--agent", name, "--profile", "full")
		require.Zero(t, made.code, made.err)
		id := strings.TrimSpace(made.out)
		rec := waitRecord(t, id)
		a, err := builtin.Registry().Get(rec.Agent)
		require.NoError(t, err)
		require.Equal(t, architectures[name], a.Info().Architecture)
		require.Equal(t, []string{name, "full"}, []string{rec.Agent, rec.Profile})
		entry := inList(t, id)
		require.Equal(t, []string{name, "full"}, []string{entry.Agent, entry.Profile})
		h, err := spaceOf(t).Client.Get(testContext(t), id)
		require.NoError(t, err)
		first := payloads[event.SessionInitialized](events(t, h))[0]
		require.Equal(t, []string{name, "full"}, []string{first.Agent, first.Profile})
		require.NoError(t, h.Close(testContext(t)))
	}
}

// nativeIDs match the native session id in the path and the text of an agent's main
// transcript.
var nativeIDs = map[string]*regexp.Regexp{
	"claude":   regexp.MustCompile(`/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl\n`),
	"codex":    regexp.MustCompile(`rollout-.*-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl\n`),
	"gemini":   regexp.MustCompile(`"sessionId": ?"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"`),
	"opencode": regexp.MustCompile(`"(ses_[0-9a-f]{12}[0-9A-Za-z]{14})"`),
}

// TestR14NativeSessionIDIsTheAgentsOwn: an agent stores a session under an id of its
// own form, not the session's. If the agent lets the host choose the id, it is the
// chosen one.
func TestR14NativeSessionIDIsTheAgentsOwn(t *testing.T) {
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name})
		require.NoError(t, say(t, h, "SAY kept under an id").Err())
		require.NoError(t, h.Close(ctx))
		infos, err := spaceOf(t).Archive.Transcripts(ctx, h.ID())
		require.NoError(t, err)
		main := slices.IndexFunc(infos, func(i archive.TranscriptInfo) bool { return i.ID == event.Main })
		require.NotEqual(t, -1, main)
		found := nativeIDs[a.Info().Name].FindStringSubmatch(infos[main].Path + "\n" + saved(ctx, t, h.ID(), event.Main))
		require.NotNil(t, found, infos[main].Path)
		require.NotEqual(t, h.ID(), found[1])
		if a.Info().Capabilities.ChosenID && a.NativeID(h.ID(), 1) != "" {
			require.Equal(t, a.NativeID(h.ID(), 1), found[1])
		}
	})
}
