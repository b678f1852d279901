package codex

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/event"
)

// requested records what the host has written to the program.
func (t *translator) requested(m *message) error {
	id := key(m.ID)
	p := new(params)
	if given(m.Params) {
		if err := decodeObject(m.Params, p); err != nil {
			return err
		}
	}
	switch m.Method {
	case "initialize":
		t.Process++
		t.Opening = opening{Phase: hailing, Initialize: id}
	case "thread/start", "thread/resume":
		t.Opening.Phase, t.Opening.Thread = opened, id
	case "turn/start", "turn/steer":
		t.handed(id, p)
		return nil
	case "turn/interrupt":
		if th := t.Threads[p.ThreadID]; th != nil {
			th.Interrupt = true
		}
	}
	t.Calls[id] = call{Method: m.Method, Model: p.Model}
	return nil
}

// key returns the id of a request as text.
func key(id jsontext.Value) string {
	if text, ok := plainText(id); ok {
		return text
	}
	return string(id)
}

// handed records a prompt. One that has an id and begins a turn is in the
// conversation at once, all others when the program takes them.
func (t *translator) handed(id string, p *params) {
	c := call{Method: "turn/start", Prompt: p.ClientID, Steered: strings.HasSuffix(id, steered)}
	if t.Turn.Busy = true; !c.Steered {
		t.Turn.End = nil
	}
	if p.ClientID != "" {
		h := handed{ID: p.ClientID, Turn: t.mainTurn()}
		if h.Turn == "" && len(t.Handed) == 0 && !c.Steered {
			h.Shown, h.Block = true, userBlock(h.ID, inputsOf(p.Input))
			t.Upsert(event.Main, *h.Block)
		}
		t.Handed = append(t.Handed, h)
	}
	t.Calls[id] = c
}

// mainTurn returns the turn that the main thread runs; "" for none.
func (t *translator) mainTurn() string {
	if main := t.Threads[t.Main]; main != nil {
		return main.Turn
	}
	return ""
}

// promptTaken emits a prompt when the program takes it, once.
func (t *translator) promptTaken(th *thread, p *params) {
	id := p.Item.promptID()
	at := slices.IndexFunc(t.Handed, func(h handed) bool { return h.ID == id })
	if at < 0 || th.Conversation != event.Main {
		t.end(th, id, p.Item, event.DirOut)
		return
	}
	h := t.Handed[at]
	t.Handed[at].Block = nil
	if !h.Shown {
		t.end(th, id, p.Item, event.DirOut)
		t.Handed[at].Shown = true
		ref := event.MessageRef{MessageID: id}
		if h.Turn != "" && h.Turn == p.TurnID {
			t.Emit(event.Main, event.MessageFolded{MessageRef: ref})
		} else {
			t.Emit(event.Main, event.MessageOwnTurn{MessageRef: ref})
		}
	}
}

// keepUntaken has the host keep a prompt that was shown, and that the program has not taken
// by the end of its turn: no rollout has it.
func (t *translator) keepUntaken(h handed) bool {
	if h.Block != nil {
		t.UpsertServer(event.Main, *h.Block)
	}
	return h.Block != nil
}

// responded translates the program's answer to a request of the host.
func (t *translator) responded(m *message) error {
	id := key(m.ID)
	c, ours := t.Calls[id]
	delete(t.Calls, id)
	if given(m.Error) {
		return t.failed(id, c, m.Error)
	}
	var r response
	if err := decodeObject(m.Result, &r); err != nil {
		return err
	}
	switch {
	case id == t.Opening.Initialize && t.Opening.Phase == hailing:
		t.greet()
	case r.Thread != nil && (!ours || id == t.Opening.Thread):
		t.threadOpened(&r)
	case c.Method == "turn/start" && r.Turn != nil && slices.Contains(t.Turn.Ended, r.Turn.ID):
		t.idle() // the turn that took a steered message has ended before the response came
	case c.Method == "turn/start" && r.Turn != nil:
		th := t.thread(t.Main)
		begins := th.Turn != r.Turn.ID
		t.runs(t.Main, r.Turn.ID)
		th.Starting = begins
	case c.Method == "thread/settings/update" && c.Model != "":
		t.modelIs(c.Model)
		model := c.Model
		t.Emit(event.Main, event.OptionsUpdate{Model: &model})
	}
	return nil
}

func (t *translator) threadOpened(r *response) {
	t.mainIs(r.Thread.ID)
	t.Opening.Phase = ready
	t.modelIs(r.Model)
}

func (t *translator) modelIs(model string) {
	if model != "" && model != t.Model {
		t.Model = model
		t.Emit(event.Main, event.MetadataUpdate{Model: model})
	}
}

// failed translates the program's refusal of a request.
func (t *translator) failed(id string, c call, raw jsontext.Value) error {
	var e turnError
	if err := decodeObject(raw, &e); err != nil {
		return err
	}
	if id == t.Opening.Initialize || id == t.Opening.Thread {
		t.Opening.Phase, t.Opening.Refused = refused, e.Message
	}
	t.Emit(event.Main, event.Error{MessageID: c.Prompt, ErrorInfo: event.ErrorInfo{
		Message: "codex: " + e.Message, Code: codeRefused, Data: json.RawMessage(raw),
	}})
	if c.Method == "turn/start" {
		t.promptRefused(c, e.Message)
	}
	return nil
}

const codeRefused = "request_refused"

// promptRefused ends the turn that a refused prompt was to begin. Its message is in no
// rollout, so the host keeps it, with why it failed. A steered one is not shown yet,
// and leaves the turn before as it ended.
func (t *translator) promptRefused(c call, why string) {
	if at := slices.IndexFunc(t.Handed, func(h handed) bool { return h.ID == c.Prompt }); at >= 0 {
		if t.keepUntaken(t.Handed[at]) {
			t.UpsertServer(event.Main, event.Block{
				ID: c.Prompt + ":error", Type: event.BlockError, Status: event.StatusComplete, Message: &why, Code: codeRefused,
			})
		}
		t.Handed = slices.Delete(t.Handed, at, at+1)
	}
	switch {
	case t.mainTurn() != "":
		return
	case !c.Steered:
		t.Turn.End = &turnEnd{Message: why, Code: codeRefused}
	case t.Turn.End == nil:
		t.Turn.End = &turnEnd{}
	}
	t.idle()
}

// asked translates a request of the program to the host.
func (t *translator) asked(m *message, raw []byte) error {
	kind, known := askKinds[m.Method]
	if !known {
		t.Native(t.conversationIn(m.Params), event.DirOut, m.Method, raw)
		t.refuse(m)
		return nil
	}
	p := new(params)
	if err := decodeObject(m.Params, p); err != nil {
		return err
	}
	id := t.askID(m.ID)
	conversation := t.conversationOf(p.ThreadID)
	t.Asks[id] = ask{Raw: json.RawMessage(m.ID), Conversation: conversation, Thread: p.ThreadID, Method: m.Method}
	e := event.PermissionRequested{
		RequestID: id, ToolName: kind.tool, ToolUseID: p.ItemID, Title: first(p.Reason, p.words()), Input: json.RawMessage(m.Params),
	}
	t.describe(&e, p)
	t.Emit(conversation, e)
	return nil
}

// askID makes the program's id for a request unique over all its processes, also those
// in other sandboxes: it has the id of the process's opening.
func (t *translator) askID(raw jsontext.Value) string {
	return t.Opening.Initialize + "/ask-" + key(raw)
}

func (p *params) words() string {
	text, _ := plainText(p.Text)
	return text
}

// describe sets what a request is about, in the terms of its call.
func (t *translator) describe(e *event.PermissionRequested, p *params) {
	th := t.thread(p.ThreadID)
	switch {
	case given(p.Questions):
		e.Questions = json.RawMessage(p.Questions)
	case p.Command != "":
		e.Input = object(map[string]any{"command": script(jsontext.Value(rawText(p.Command)))})
	case p.Meta != nil && p.Meta.Kind == approvesMCP:
		e.ToolName = "mcp__" + p.Server + "__" + p.Meta.Tool
		e.Input = objectOr(p.Meta.Params)
		for _, o := range th.Open {
			if o.Kind == kindMCP && o.Tool == e.ToolName {
				e.ToolUseID = o.ID
			}
		}
	default:
		if at := th.find(p.ItemID); at >= 0 && len(th.Open[at].Input) > 0 {
			e.Input = th.Open[at].Input
		}
	}
}

// approvesMCP marks a question that asks for the approval of a tool of an MCP
// server.
const approvesMCP = "mcp_tool_call"

// refuse answers a request of a kind that the host can't decide, so that the
// program does not wait for ever.
func (t *translator) refuse(m *message) {
	id := "refuse-" + t.askID(m.ID)
	t.dueLine(id, map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "not supported by this client"}})
}

// answered translates the host's answer to a request of the program.
func (t *translator) answered(m *message) error {
	id := t.askID(m.ID)
	if _, waits := t.Asks[id]; !waits {
		return nil
	}
	var a answer
	if given(m.Result) {
		if err := decodeObject(m.Result, &a); err != nil {
			return err
		}
	}
	t.resolve(id, a.verdict())
	return nil
}

// verdict returns allow or deny.
func (a *answer) verdict() string {
	if word, ok := plainText(a.Decision); ok {
		if strings.HasPrefix(word, "accept") || strings.HasPrefix(word, "approved") {
			return "allow"
		}
		return "deny"
	}
	// A denial has these two as well, empty.
	if given(a.Decision) || a.Action == "accept" || len(a.Answers) > 0 || len(a.Permissions) > 0 {
		return "allow"
	}
	return "deny"
}

// resolve emits once what became of a request.
func (t *translator) resolve(id, what string) {
	a, waits := t.Asks[id]
	if !waits {
		return
	}
	delete(t.Asks, id)
	t.Emit(a.Conversation, event.PermissionResolved{RequestID: id, Decision: what})
}

// withdraw ends the requests of a thread whose turn is over: their answers are
// not needed any more.
func (t *translator) withdraw(threadID string) {
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		if t.Asks[id].Thread == threadID {
			t.resolve(id, "cancelled")
		}
	}
}

// requestResolved ends a request without an answer.
func (t *translator) requestResolved(p *params, _ []byte) {
	t.resolve(t.askID(p.RequestID), "cancelled")
}
