package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/parity"
)

// payloads returns the payloads of one type, in order.
func payloads[P event.Payload](events []event.Event) []P {
	var found []P
	for _, ev := range events {
		if p, ok := ev.Payload.(P); ok {
			found = append(found, p)
		}
	}
	return found
}

// first returns a predicate that is true for the first event of type P that satisfies
// enough.
func first[P event.Payload](enough func(P) bool) func(event.Event) bool {
	return func(ev event.Event) bool {
		p, ok := ev.Payload.(P)
		return ok && enough(p)
	}
}

// fold folds events to a conversation.
func fold(events []event.Event) reducer.State {
	var b reducer.Builder
	for _, ev := range events {
		b.Add(ev)
	}
	return b.State()
}

// sendToGate starts a turn whose script ends at a gate, and returns when the model
// waits there.
func sendToGate(ctx context.Context, t *testing.T, h *session.Handle, script string) (session.Receipt, string) {
	t.Helper()
	gate := "live-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: script + "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	return r, gate
}

// answeredWell waits for a receipt's result, and checks that it is no failure.
func answeredWell(ctx context.Context, t *testing.T, h *session.Handle, r session.Receipt) session.Result {
	t.Helper()
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	return res
}

// TestR48BlocksSyncAsSoonAsComplete: a complete block is in the stream while its turn
// is still running.
func TestR48BlocksSyncAsSoonAsComplete(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	r, gate := sendToGate(ctx, t, h, "SAY one whole block THEN TOOL bash: echo whole THEN ")
	heard := heardUntil(t, h, 0, first(func(p event.BlockUpsert) bool {
		return p.Block.Type == event.BlockToolResult && p.Block.Status == event.StatusComplete
	}))
	require.Empty(t, payloads[event.QueryCompleted](heard))
	var done []event.BlockType
	for _, b := range fold(heard).Blocks {
		if b.Status == event.StatusComplete {
			done = append(done, b.Type)
		}
	}
	require.Equal(t, []event.BlockType{event.BlockUserMessage, event.BlockAssistantText, event.BlockAssistantText, event.BlockToolUse, event.BlockToolResult}, done)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
}

// TestR58SubagentsDoNotPolluteMain and R74: the events of a subagent have the tool-use
// id as their conversation; main has only the reference block.
func TestR58SubagentsDoNotPolluteMain(t *testing.T) {
	withClaude(t)
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SUBAGENT TOOL bash: echo inner-tool ANDTHEN SAY inner words").Err())
	all := events(t, h)
	id := payloads[event.SubagentSpawned](all)[0].ToolUseID
	var inner int
	for _, ev := range all {
		if ev.Context.Conversation() == event.Main {
			continue
		}
		require.Equal(t, id, ev.Context.ConversationID, "every other conversation is the subagent's")
		inner++
	}
	require.Positive(t, inner)

	s := fold(all)
	var main []event.BlockType
	for _, b := range s.Blocks {
		main = append(main, b.Type)
		if b.Type == event.BlockAssistantText {
			require.NotEqual(t, "inner words", *b.Content)
		}
	}
	require.Contains(t, main, event.BlockSubagent, "the reference")
	require.Len(t, s.Subagents, 1)
	require.Equal(t, id, s.Subagents[0].ToolUseID)
	var types []event.BlockType
	for _, b := range s.Subagents[0].Blocks {
		types = append(types, b.Type)
	}
	require.Contains(t, types, event.BlockToolResult)
	require.Equal(t, event.BlockAssistantText, types[len(types)-1])
	require.NoError(t, h.Close(testContext(t)))
}

// TestR74ConversationOnEveryEvent: every event of the stream has its session and its
// conversation.
func TestR74ConversationOnEveryEvent(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SUBAGENT SAY routed").Err())
	conversations := map[string]bool{}
	for _, ev := range events(t, h) {
		require.Equal(t, h.ID(), ev.Context.SessionID)
		require.NotEmpty(t, ev.Context.ConversationID, "%s", ev.Type())
		require.NotEmpty(t, ev.Context.Source, "%s", ev.Type())
		require.False(t, ev.Context.Timestamp.IsZero(), "%s", ev.Type())
		conversations[ev.Context.ConversationID] = true
	}
	require.Len(t, conversations, 2, "main and one subagent")
	require.True(t, conversations[event.Main])
}

// TestR63SubagentSpawned: the event is emitted at the tool's start, with the subagent's
// task, and before all events of the subagent.
func TestR63SubagentSpawned(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	gate := "r63-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "SUBAGENT GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	heard := heardUntil(t, h, r.AfterSeq, nth[event.SubagentSpawned](1))
	for _, ev := range heard {
		require.Equal(t, event.Main, ev.Context.Conversation(), "no event of the subagent is before it")
	}
	p := payloads[event.SubagentSpawned](heard)[0]
	require.NotEmpty(t, p.ToolUseID)
	require.Equal(t, "GATE "+gate, p.Prompt)
	require.Equal(t, "general-purpose", p.SubagentType)
	require.Equal(t, "inner job", p.Description)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
}

// TestR64SubagentCompleted: the event is emitted at the tool's result, with the
// outcome.
func TestR64SubagentCompleted(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, h, "SUBAGENT SAY the outcome").Err())
	all := events(t, h)
	spawned, completed := payloads[event.SubagentSpawned](all), payloads[event.SubagentCompleted](all)
	require.Len(t, completed, 1)
	c := completed[0]
	require.Equal(t, spawned[0].ToolUseID, c.ToolUseID)
	require.NotEmpty(t, c.AgentID)
	require.Equal(t, event.SubagentCompletedOK, c.Status)
	require.NotNil(t, c.Output)
	require.Contains(t, *c.Output, "the outcome")
	require.NotNil(t, c.DurationMS, "the agent reports the duration")
	require.NoError(t, h.Close(testContext(t)))
}

// TestR65IdleFinalisesPendingBlocks: blocks that are pending during the turn are
// complete when the conversation is idle.
func TestR65IdleFinalisesPendingBlocks(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	r, gate := sendToGate(ctx, t, h, "")
	heard := heardUntil(t, h, 0, nth[event.BlockDelta](1))
	require.Equal(t, event.StatusPending, last(fold(heard).Blocks).Status)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	heard = heardUntil(t, h, 0, nth[event.SessionIdle](1))
	for _, b := range fold(heard).Blocks {
		require.Equal(t, event.StatusComplete, b.Status, b.ID)
	}
	require.Equal(t, "waiting at "+gate+" passed", *last(fold(heard).Blocks).Content)
	require.NoError(t, h.Close(ctx))
}

func last[T any](all []T) T { return all[len(all)-1] }

// TestR66MetadataReachesSubscribers: subscribers receive usage, cost and model.
func TestR66MetadataReachesSubscribers(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	res := say(t, h, "SAY counted")
	require.NoError(t, res.Err())
	var usage event.Usage
	var cost float64
	var model string
	for _, m := range payloads[event.MetadataUpdate](heardUntil(t, h, 0, nth[event.QueryCompleted](1))) {
		if m.Usage != nil {
			usage = *m.Usage
		}
		if m.CostUSD != nil {
			cost = *m.CostUSD
		}
		if m.Model != "" {
			model = m.Model
		}
	}
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 20}, usage)
	require.InDelta(t, *res.Result.CostUSD, cost, 1e-9)
	require.Positive(t, cost)
	require.Contains(t, model, "claude")
	require.NoError(t, h.Close(testContext(t)))
}

// TestR67QueryEvents: every execution has a start and one end, and the end has the
// outcome.
func TestR67QueryEvents(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, h, "SAY fine").Err())
	failed := say(t, h, "ERR400")
	require.Equal(t, session.Failed, failed.Outcome)
	all := events(t, h)
	started := payloads[event.QueryStarted](all)
	require.Len(t, started, 2)
	require.Equal(t, []string{"SAY fine", "ERR400"}, []string{started[0].Message, started[1].Message})
	completed := payloads[event.QueryCompleted](all)
	require.Len(t, completed, 1)
	require.Equal(t, started[0].ExecutionID, completed[0].ExecutionID)
	require.Positive(t, completed[0].DurationMS)
	fails := payloads[event.QueryFailed](all)
	require.Len(t, fails, 1)
	require.Equal(t, started[1].ExecutionID, fails[0].ExecutionID)
	require.Equal(t, "api_error_400", fails[0].Error.Code)
	require.Contains(t, fails[0].Error.Message, "scripted error 400")
	require.NoError(t, h.Close(testContext(t)))
}

// killAgent kills the agent's own process on a host, and no other.
func killAgent(t *testing.T, w *worker) {
	t.Helper()
	pids, err := harness.Agents(w.dataDir)
	require.NoError(t, err)
	killed := 0
	for _, pid := range pids {
		proc := filepath.Join("/proc", fmt.Sprint(pid))
		argv, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		exe, linkErr := os.Readlink(filepath.Join(proc, "exe"))
		if err != nil || linkErr != nil || filepath.Base(exe) == "sojourn-runner" || !strings.Contains(string(argv), "stream-json") {
			continue
		}
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	require.Equal(t, 1, killed, "one live agent")
}

// TestR67CrashedAgentIsAFailure: a turn whose agent died has failed, and the next
// message starts the agent again, with the conversation so far.
func TestR67CrashedAgentIsAFailure(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, h, "SAY remember the word quince").Err())
	r, gate := sendToGate(ctx, t, h, "")
	killAgent(t, w)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	spaceOf(t).Model.Open(gate)
	require.Equal(t, session.Failed, res.Outcome)
	require.Equal(t, session.TypeAgentFailed, res.Error.Code)
	require.Contains(t, res.Error.Message, "the agent ended in the middle of the turn (signal")
	for _, q := range payloads[event.QueryCompleted](events(t, h)) {
		require.NotEqual(t, r.ExecutionID, q.ExecutionID)
	}
	awaitIdle(t, h)
	snap, err := h.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, snap.Restarts)

	again := say(t, h, "RECALL")
	require.NoError(t, again.Err())
	require.Contains(t, again.Result.Response, "quince")
	require.NoError(t, h.Close(ctx))
	live, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromStream)
	require.NoError(t, err)
	restored, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromArchive)
	require.NoError(t, err)
	differences, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
}

// TestR68ExecutionEnvironmentEvents follows sandboxes from their creation to each kind
// of end.
func TestR68ExecutionEnvironmentEvents(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY one").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(ctx))
	heardUntil(t, h, 0, nth[event.EETerminated](1))
	idle := int64(200)
	_, err := h.Configure(ctx, session.Configure{IdleTimeoutMS: &idle})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY two").Err())
	heardUntil(t, h, 0, nth[event.EETerminated](2))
	idle = session.DefaultIdleTimeout.Milliseconds()
	_, err = h.Configure(ctx, session.Configure{IdleTimeoutMS: &idle})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY three").Err())
	require.NoError(t, h.Close(ctx))

	var told []string
	for _, ev := range events(t, h) {
		switch p := ev.Payload.(type) {
		case event.EECreating:
			require.Equal(t, "starting", p.Status)
			told = append(told, "creating")
		case event.EEReady:
			require.Equal(t, "ready", p.Status)
			require.NotEmpty(t, p.SandboxID)
			require.NotEmpty(t, p.Host)
			told = append(told, "ready")
		case event.EEHealthCheck:
			require.Equal(t, "ready", p.Status)
			require.False(t, p.LastHealthCheck.IsZero())
			told = append(told, "healthy")
		case event.EETerminated:
			require.Equal(t, "terminated", p.Status)
			told = append(told, "terminated "+p.Reason)
		case event.EEError:
			require.Fail(t, p.Message)
		}
	}
	require.Equal(t, []string{
		"creating", "ready", "healthy", "terminated manual",
		"creating", "ready", "healthy", "terminated idle",
		"creating", "ready", "healthy", "terminated manual",
	}, told)
	require.Empty(t, sandboxes(t, w))
}

// TestR68SandboxThatCannotBeMade: ee:error has the reason, the turn fails with it, and
// nothing is left of the attempt.
func TestR68SandboxThatCannotBeMade(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	missing := filepath.Join(t.TempDir(), "not-there")
	h := open(t, session.Options{Workspace: missing})
	res := say(t, h, "SAY never")
	require.Equal(t, session.Failed, res.Outcome)
	require.Equal(t, session.TypeInvalid, res.Error.Code)
	require.Contains(t, res.Error.Message, missing)
	errs := payloads[event.EEError](events(t, h))
	require.NotEmpty(t, errs)
	require.Contains(t, errs[0].Message, missing)
	require.Empty(t, sandboxes(t, w))
	require.NoError(t, os.Mkdir(missing, 0o700))
	require.NoError(t, say(t, h, "SAY now").Err(), "the session continues when what was missing is there")
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// TestR70TranscriptEvents: events report the archive's growth while the session runs,
// and what is restored into a sandbox when it is reopened.
func TestR70TranscriptEvents(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	r, gate := sendToGate(ctx, t, h, "TOOL bash: echo grown THEN ")
	during := heardUntil(t, h, 0, nth[event.TranscriptChanged](1))
	require.Empty(t, payloads[event.QueryCompleted](during), "the archive grows while the turn runs")
	changed := payloads[event.TranscriptChanged](during)[0]
	require.Equal(t, "main", changed.ID)
	require.Positive(t, changed.Offset)
	require.Len(t, changed.SHA256, 64)
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))

	infos, err := spaceOf(t).Archive.Transcripts(ctx, h.ID())
	require.NoError(t, err)
	h, err = spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY again").Err())
	written := payloads[event.TranscriptWritten](events(t, h))
	require.NotEmpty(t, written)
	for _, w := range written {
		i := slices.IndexFunc(infos, func(i archive.TranscriptInfo) bool { return i.ID == w.ID })
		require.GreaterOrEqual(t, i, 0, w.ID)
		require.Equal(t, infos[i].Size, w.Offset)
		require.Equal(t, infos[i].SHA256, w.SHA256)
	}
	require.NoError(t, h.Close(ctx))
}

// TestR71StatusEvent: one status event describes the session's runtime.
func TestR71StatusEvent(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY up").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(ctx))
	heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.NoError(t, h.Close(ctx))
	var told []string
	for _, s := range payloads[event.Status](events(t, h)) {
		if s.Runtime == nil {
			continue // a fence
		}
		sandbox := "null"
		if s.Runtime.Sandbox != nil {
			sandbox = s.Runtime.Sandbox.Status
		}
		told = append(told, fmt.Sprintf("%t %s", s.Runtime.IsLoaded, sandbox))
	}
	require.Equal(t, []string{"true null", "true starting", "true ready", "true null", "false null"}, told)
}

// TestR72ListChanges: clients that show a list are notified when to fetch it again.
func TestR72ListChanges(t *testing.T) {
	onSharedHost(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	heard, listening := make(chan stream.Change, 64), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		listen(ctx, spaceOf(t).Client, heard, listening)
	}()
	<-listening
	h := open(t, session.Options{Title: "before"})
	awaitChange(t, heard, h.ID(), stream.ChangeCreated)
	title := "after"
	_, err := h.Configure(ctx, session.Configure{Title: &title})
	require.NoError(t, err)
	awaitChange(t, heard, h.ID(), stream.ChangeRenamed)
	require.NoError(t, h.Close(ctx))
	awaitChange(t, heard, h.ID(), stream.ChangeClosed)
	cancel()
	<-done
}

// listen passes changes on. listening is closed once no change can be missed.
func listen(ctx context.Context, c *session.Client, heard chan<- stream.Change, listening chan struct{}) {
	ready := sync.OnceFunc(func() { close(listening) }) // it is said again after each new connection
	for c, err := range c.Changes(ctx) {
		switch {
		case err != nil:
			return
		case c.Kind == stream.ChangeMissed:
			ready()
		default:
			select {
			case heard <- c:
			case <-ctx.Done():
				return
			}
		}
	}
}

// awaitChange waits for the session's next change.
func awaitChange(t *testing.T, heard <-chan stream.Change, id string, want stream.ChangeKind) {
	t.Helper()
	for {
		select {
		case c := <-heard:
			if c.SessionID == id {
				require.Equal(t, want, c.Kind)
				return
			}
		case <-testContext(t).Done():
			require.Fail(t, "no such change", "%s", want)
		}
	}
}
