package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// modelAsked returns the model names of the last requests, newest last.
func modelAsked(t *testing.T) []string {
	t.Helper()
	var models []string
	for _, r := range spaceOf(t).Model.Recorded() {
		var body struct {
			Model string `json:"model"`
		}
		require.NoError(t, json.Unmarshal(r.Body, &body))
		models = append(models, body.Model)
	}
	return models
}

// TestR73OptionsUpdate: a change of options is an event, and a change of the model
// takes effect in the running agent.
func TestR73OptionsUpdate(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Model: "claude-sonnet-4-5"})
	require.NoError(t, say(t, h, "SAY with the first").Err())
	require.Equal(t, "claude-sonnet-4-5", last(modelAsked(t)))
	awaitIdle(t, h)
	model, title := "claude-opus-4-5", "on another model"
	_, err := h.Configure(ctx, session.Configure{Model: &model, Title: &title, Tags: []string{"switched"}})
	require.NoError(t, err)
	updates := payloads[event.OptionsUpdate](heardUntil(t, h, 0, first(func(p event.OptionsUpdate) bool { return p.Title != nil })))
	told := last(updates)
	require.Equal(t, model, *told.Model)
	require.Equal(t, title, *told.Title)
	require.Equal(t, []string{"switched"}, told.Tags)
	require.NoError(t, say(t, h, "SAY with the second").Err())
	require.Equal(t, model, last(modelAsked(t)))
	require.Len(t, payloads[event.EECreating](events(t, h)), 1, "the same live agent")

	// During a turn, for the agent's next request.
	r, gate := sendToGate(ctx, t, h, "")
	model = "claude-haiku-4-5"
	_, err = h.Configure(ctx, session.Configure{Model: &model})
	require.NoError(t, err)
	heardUntil(t, h, r.AfterSeq, first(func(p event.OptionsUpdate) bool { return p.Model != nil && *p.Model == model }))
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, say(t, h, "SAY with the third").Err())
	require.Contains(t, last(modelAsked(t)), "haiku")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// asksFor sends a message and waits until the agent asks for a permission.
func asksFor(t *testing.T, h *session.Handle, text string) (session.Receipt, event.PermissionRequested) {
	t.Helper()
	r, err := h.Send(testContext(t), session.Message{Text: text})
	require.NoError(t, err)
	_, command, _ := strings.Cut(text, ": ")
	heard := heardUntil(t, h, r.AfterSeq, first(func(p event.PermissionRequested) bool {
		return strings.Contains(string(p.Input), command)
	}))
	return r, last(payloads[event.PermissionRequested](heard))
}

// TestPermissionAsk: the agent waits for a person, does what is allowed, and gets a
// denial with the person's message.
func TestPermissionAsk(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch allowed.txt")
	require.Equal(t, "Bash", asked.ToolName)
	require.NotEmpty(t, asked.ToolUseID)
	require.Contains(t, string(asked.Input), "touch allowed.txt")
	workspace := filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0], "workspace")
	require.NoFileExists(t, filepath.Join(workspace, "allowed.txt"), "nothing runs before the answer")
	var invalid *session.InvalidError
	require.ErrorAs(t, h.Respond(ctx, session.RespondRequest{RequestID: "no-such-request", Allow: true}), &invalid)
	require.Equal(t, "requestId", invalid.Field)
	require.ErrorAs(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true, By: event.ByPolicy}), &invalid)
	require.Equal(t, "by", invalid.Field, "the name policy is refused for a person")
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true}))
	answeredWell(ctx, t, h, r)
	require.FileExists(t, filepath.Join(workspace, "allowed.txt"))

	r, asked = asksFor(t, h, "TOOL bash: touch denied.txt")
	sojourn(t, "respond", h.ID(), asked.RequestID, "deny", "--message", "ask the owner of the vineyard first", "--by", "Anna of the cellar")
	res := answeredWell(ctx, t, h, r)
	require.Contains(t, res.Result.Response, "ask the owner of the vineyard first", "the agent got the message")
	require.NoFileExists(t, filepath.Join(workspace, "denied.txt"))

	require.Equal(t, []string{"allow by user", "deny by Anna of the cellar"}, decisions(t, h))
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestAWorkspaceAllowsNothing: what an agent that may do everything writes into the workspace's
// own settings allows nothing once the session asks.
func TestAWorkspaceAllowsNothing(t *testing.T) {
	skip.InShort(t, "the agents' conformance has it for each of them")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	const settings = `{"permissions":{"allow":["Bash"]},"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"touch unasked"}]}]}}`
	require.NoError(t, say(t, h, "TOOL bash: mkdir .claude; echo '"+settings+"' > .claude/settings.json").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(ctx))
	require.NoError(t, say(t, h, "TOOL bash: rm unasked").Err(), "the next agent has loaded the hook")
	awaitIdle(t, h)
	ask := adapters.PermissionAsk
	_, err := h.Configure(ctx, session.Configure{Permission: &ask})
	require.NoError(t, err)
	r, asked := asksFor(t, h, "TOOL bash: touch denied.txt")
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: false}))
	answeredWell(ctx, t, h, r)
	workspace := filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0], "workspace")
	require.FileExists(t, filepath.Join(workspace, ".claude", "settings.json"))
	require.NoFileExists(t, filepath.Join(workspace, "denied.txt"))
	require.NoFileExists(t, filepath.Join(workspace, "unasked"), "a hook ran")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// decisions returns the decisions on a session's permission requests, and by whom.
func decisions(t *testing.T, h *session.Handle) (out []string) {
	t.Helper()
	for _, p := range payloads[event.PermissionResolved](events(t, h)) {
		out = append(out, p.Decision+" by "+p.By)
	}
	return out
}

// TestASessionsOwnRules: a session's rules override its profile's and are changed
// without a new agent; the conversation has whose answer it was.
func TestASessionsOwnRules(t *testing.T) {
	skip.InShort(t, "TestPermissionRules has a profile's")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", "claude", "--permission", "deny", "--allow", "Bash:touch one*", "--ask", "Bash:touch two*"))
	h, err := spaceOf(t).Client.Get(ctx, id)
	require.NoError(t, err)
	require.NoError(t, say(t, h, "TOOL bash: touch one.txt").Err())
	require.NoError(t, say(t, h, "TOOL bash: touch none.txt").Err())
	r, asked := asksFor(t, h, "TOOL bash: touch two.txt")
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true, By: "ben"}))
	answeredWell(ctx, t, h, r)
	sojourn(t, "configure", id, "--permission", "allow", "--deny", "Bash:touch three*")
	require.NoError(t, say(t, h, "TOOL bash: touch three.txt").Err())
	require.NoError(t, say(t, h, "TOOL bash: touch four.txt").Err())
	sojourn(t, "configure", id, "--permission", "ask", "--no-rules", "--permission-deadline", "1s")
	require.NoError(t, say(t, h, "TOOL bash: touch five.txt").Err())
	require.Equal(t, []string{
		"allow by policy", "deny by policy", "allow by ben", "deny by policy", "allow by policy", "deny by deadline",
	}, decisions(t, h))
	there, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", id+"-*", "workspace", "*.txt"))
	require.NoError(t, err)
	for i := range there {
		there[i] = filepath.Base(there[i])
	}
	require.Equal(t, []string{"four.txt", "one.txt", "two.txt"}, there)
	require.NoError(t, h.Close(ctx))
	requireParity(t, id)
}

// TestPermissionBySignal: a plain Temporal client answers by a signal with one word.
func TestPermissionBySignal(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h, raw := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk}), bare(t)
	// The request is in the stream a moment before the session's status is waiting.
	waits := func() bool {
		now, err := h.Inspect(ctx)
		return err == nil && now.Status == session.StatusWaiting
	}
	r, _ := asksFor(t, h, "TOOL bash: touch allowed.txt && echo was allowed")
	require.Eventually(t, waits, patience, tick)
	require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", "respond", "perhaps"))
	require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", "respond", "allow"))
	require.Contains(t, answeredWell(ctx, t, h, r).Result.Response, "was allowed")
	r, asked := asksFor(t, h, "TOOL bash: touch denied.txt")
	require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", "respond", map[string]any{"requestId": asked.RequestID, "allow": false, "message": "ask the owner first"}))
	require.Contains(t, answeredWell(ctx, t, h, r).Result.Response, "ask the owner first")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
	require.Contains(t, sojourn(t, "show", h.ID()), "signal respond: respond: is neither allow nor deny", "the invalid answer is in the conversation")
}

// TestPermissionDeny: the permission mode deny is answered by policy, and the agent
// gets the message.
func TestPermissionDeny(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionDeny})
	res := say(t, h, "TOOL bash: touch never.txt")
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "policy denies")
	require.NoFileExists(t, filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0], "workspace", "never.txt"))
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// TestPermissionInterruptedWhileAsking: an interrupt ends a turn that waits for an
// answer, and the request with it.
func TestPermissionInterruptedWhileAsking(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch never.txt")
	_, err := h.Interrupt(ctx, session.InterruptRequest{Reason: "never mind"})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	resolved := payloads[event.PermissionResolved](events(t, h))
	require.Len(t, resolved, 1)
	require.Equal(t, asked.RequestID, resolved[0].RequestID)
	require.NotEqual(t, "allow", resolved[0].Decision)
	require.NoError(t, say(t, h, "SAY goes on").Err())
	require.NoError(t, h.Close(ctx))
}

// TestBusyPolicies: the sender decides what happens to a message that arrives during a
// turn.
func TestBusyPolicies(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	running, _ := sendToGate(ctx, t, h, "")
	_, err := h.Send(ctx, session.Message{Text: "SAY rejected", WhenBusy: session.BusyReject})
	require.ErrorIs(t, err, session.ErrBusy)
	queued, err := h.Send(ctx, session.Message{Text: "SAY queued", WhenBusy: session.BusyQueue})
	require.NoError(t, err)
	next, err := h.Send(ctx, session.Message{Text: "SAY went next", WhenBusy: session.BusyInterrupt})
	require.NoError(t, err)
	res, err := h.Wait(ctx, running)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Equal(t, "went next", answeredWell(ctx, t, h, next).Result.Response)
	require.Equal(t, "queued", answeredWell(ctx, t, h, queued).Result.Response)
	require.Equal(t, []string{running.MessageID, next.MessageID, queued.MessageID}, answered(t, h))
	awaitIdle(t, h)
	r, err := h.Send(ctx, session.Message{Text: "SAY not busy any more", WhenBusy: session.BusyReject})
	require.NoError(t, err)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// aPixel is the smallest PNG.
const aPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestMessageWithAnImage: the model gets the image, and the conversation has it.
func TestMessageWithAnImage(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	r, err := h.Send(ctx, session.Message{
		Text: "SAY what a pixel", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: aPixel}},
	})
	require.NoError(t, err)
	require.Equal(t, "what a pixel", answeredWell(ctx, t, h, r).Result.Response)
	require.Contains(t, string(last(spaceOf(t).Model.Recorded()).Body), `"media_type":"image/png"`)
	var parts []event.Part
	for _, b := range fold(events(t, h)).Blocks {
		if b.Type == event.BlockUserMessage {
			parts = b.Parts
		}
	}
	require.True(t, len(parts) > 0 && last(parts).Type == "image", "%v", parts)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestIdleTimeoutKeepsTheSession: the sandbox is removed, the conversation remains.
func TestIdleTimeoutKeepsTheSession(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{IdleTimeoutMS: 200})
	require.NoError(t, say(t, h, "SAY remember the word medlar").Err())
	heard := heardUntil(t, h, 0, nth[event.EETerminated](1))
	require.Equal(t, "idle", last(payloads[event.EETerminated](heard)).Reason)
	eventually(t, func(c *assert.CollectT) bool {
		s, err := h.Snapshot(ctx)
		require.NoError(c, err)
		require.Equal(t, session.StatusIdle, s.Status)
		return s.Sandbox == nil
	}, patience, tick)
	require.Empty(t, sandboxes(t, w))
	res := say(t, h, "RECALL")
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "medlar")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestTwoSessionsDoNotMix runs two turns at the same time, answered in the opposite
// order.
func TestTwoSessionsDoNotMix(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	a, b := open(t, session.Options{}), open(t, session.Options{})
	ra, gateA := sendToGate(ctx, t, a, "SAY only of a THEN ")
	rb, gateB := sendToGate(ctx, t, b, "SAY only of b THEN ")
	spaceOf(t).Model.Open(gateB)
	answeredWell(ctx, t, b, rb)
	spaceOf(t).Model.Open(gateA)
	answeredWell(ctx, t, a, ra)
	for name, h := range map[string]*session.Handle{"a": a, "b": b} {
		other := map[string]string{"a": "b", "b": "a"}[name]
		for i, ev := range events(t, h) {
			require.Equal(t, h.ID(), ev.Context.SessionID)
			require.Equal(t, uint64(i+1), ev.Context.Seq)
			data, err := ev.MarshalJSON()
			require.NoError(t, err)
			require.NotContains(t, string(data), "only of "+other)
		}
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
	}
}

// manySessions is how many run at the same time on one host.
const manySessions = 16

// TestManySessionsOnOneHost: each answers with its own text and has its own
// configuration.
func TestManySessionsOnOneHost(t *testing.T) {
	skip.InShort(t, "TestTwoSessionsDoNotMix has two")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	type one struct {
		h     *session.Handle
		r     session.Receipt
		words string
	}
	var all []one
	for i := range manySessions {
		o := one{h: open(t, session.Options{}), words: fmt.Sprintf("words of %d, %s", i, uuid.NewString())}
		var err error
		o.r, err = o.h.Send(testContext(t), session.Message{Text: "SAY " + o.words})
		require.NoError(t, err)
		all = append(all, o)
	}
	for _, o := range all {
		require.Equal(t, o.words, answeredWell(testContext(t), t, o.h, o.r).Result.Response)
	}
	configs, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", "*", "home", ".claude", ".claude.json"))
	require.NoError(t, err)
	require.Len(t, configs, manySessions, "one configuration per session")
	for _, name := range configs {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, json.Valid(data), "%s: %s", name, data)
	}
	for _, o := range all {
		require.NoError(t, o.h.Close(testContext(t)))
		requireParity(t, o.h.ID())
		for _, b := range fold(events(t, o.h)).Blocks {
			require.True(t, strings.HasSuffix(*b.Content, o.words), *b.Content)
		}
	}
}

// TestPermissionRules: a profile's rules answer by the tool's input, before the
// permission mode does, for each agent.
func TestPermissionRules(t *testing.T) {
	inOwnNamespace(t)
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "ruled"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store, "ruled", "profile.json"), []byte(`{"permission": "allow", "permissions": [
		{"tool": "*", "match": "touch never*", "answer": "deny", "reason": "only the harbour master may"},
		{"tool": "*", "match": "touch asked*", "answer": "ask"}]}`), 0o600))
	w := startWorker(t, "SOJOURN_PROFILES="+store)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := openWithProfile(t, store, a.Info().Name, "ruled")
		require.NoError(t, say(t, h, "TOOL bash: touch done.txt").Err())
		require.NoError(t, say(t, h, "TOOL bash: cd . && touch never.txt").Err())
		r, asked := asksFor(t, h, "TOOL bash: touch asked.txt")
		require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true}))
		answeredWell(ctx, t, h, r)
		there, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "workspace", "*.txt"))
		require.NoError(t, err)
		for i := range there {
			there[i] = filepath.Base(there[i])
		}
		require.Equal(t, []string{"asked.txt", "done.txt"}, there)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
	})
}

// TestPermissionDeadline: a request that no person answers in time is refused, and the
// agent gets the reason.
func TestPermissionDeadline(t *testing.T) {
	inOwnNamespace(t)
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "hasty"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store, "hasty", "profile.json"),
		[]byte(`{"permission": "ask", "permissionDeadline": {"afterMs": 1500}}`), 0o600))
	w := startWorker(t, "SOJOURN_PROFILES="+store)
	ctx := testContext(t)
	made := newWithProfile(t, store, "claude", "hasty")
	require.Zero(t, made.code, made.err)
	h, err := spaceOf(t).Client.Get(ctx, strings.TrimSpace(made.out))
	require.NoError(t, err)
	r, _ := asksFor(t, h, "TOOL bash: touch never.txt")
	require.Contains(t, answeredWell(ctx, t, h, r).Result.Response, "Nobody answered within 1.5s.")
	require.NoFileExists(t, filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0], "workspace", "never.txt"))
	i, err := h.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, session.StatusIdle, i.Status)
	require.Empty(t, i.Pending)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}
