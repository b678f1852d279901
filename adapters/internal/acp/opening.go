package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// begin handles the first line to a new process.
func (t *Translator) begin(id string) {
	t.Phase, t.Process, t.Refusal = initialize, id, ""
	t.Can, t.Asked, t.Mode, t.ModelOption = nil, "", "", ""
	t.Settle, t.Replayed, t.Replay = 0, false, replay{}
	clear(t.Sent)
	clear(t.Unserved)
}

// loading requests an old session. The request has the number of its prompts, see
// [Translator.openSession]. Of one without, of an older build, those that are
// replayed count, which are fewer if the agent has taken some back.
func (t *Translator) loading(session string, meta json.RawMessage) {
	prompts := noteOf[*int](meta, promptsKey)
	t.Replay = replay{Base: prompts == nil && (t.state.Session != session || t.Prompts == 0)}
	if t.state.Session != session {
		t.Resumed, t.Proven, t.Cost = true, false, nil
		t.state.Session, t.Prompts, t.Commands, t.Doubt = session, 0, 0, nil
	}
	if prompts != nil {
		t.Prompts, t.Doubt = *prompts, nil
	}
}

// opened handles an answer in the opening.
func (t *Translator) opened(method string, m *message) {
	switch {
	case m.Error != nil && (method == "session/load" || method == "session/resume"):
		t.sessionLost(m.Error)
	case m.Error != nil:
		t.refuse(method, m.Error)
	case method == "initialize":
		t.Phase, t.Can = initialized, abilitiesOf(m.Result)
	default:
		t.sessionOpen(method, m.Result)
	}
}

// sessionLost emits that the agent does not find its session any more, and starts
// another: if a conversation can't be continued, a visible restart is better than
// none.
func (t *Translator) sessionLost(f *fault) {
	t.emit(event.Error{ErrorInfo: event.ErrorInfo{
		Message: fmt.Sprintf("%s: native session %s could not be loaded, a new one is begun that does not remember it: %s",
			t.dialect.Agent, t.state.Session, f.text()),
		Code: "session_lost", Data: f.Data,
	}})
	t.Phase = reopen
}

func (t *Translator) refuse(method string, f *fault) {
	t.Phase, t.Refusal = refused, fmt.Sprintf("%s: %s", method, f.text())
	t.emit(event.Error{ErrorInfo: event.ErrorInfo{
		Message: t.dialect.Agent + ": " + t.Refusal, Code: "session_refused", Data: f.Data,
	}})
}

// sessionOpen handles the answer to session/new or session/load.
func (t *Translator) sessionOpen(method string, result json.RawMessage) {
	var r struct {
		SessionID string `json:"sessionId"`
		settings
	}
	_ = json.Unmarshal(result, &r) // the fields that fit
	t.Phase, t.Mode = ready, r.Modes.Current
	if method == "session/load" && t.dialect.Settle && (t.dialect.Modes != nil || t.Mode != "") {
		t.Phase = settling
	}
	if method == "session/new" {
		t.state.Session, t.Prompts, t.Commands, t.Doubt = r.SessionID, 0, 0, nil
		t.Resumed, t.Cost = false, nil
	}
	t.model(r.Models.Current)
	for _, o := range r.Options {
		if name, is := o.Value.(string); is && o.Category == "model" && t.ModelOption == "" {
			t.ModelOption = o.ID
			t.model(name)
		}
	}
}

// userChunk handles a prompt that is replayed: nothing else repeats prompts.
func (t *Translator) userChunk(u *update) {
	t.Replayed = true
	c, ok := chunk(u.Content)
	if !ok || len(t.Turns) > 0 {
		return
	}
	if internalPrompt(c.Text) {
		return
	}
	t.Replay.Prompts++
	t.Replay.Last = c.Text
}

// internalPrompt recognizes what agents send their model in the user's name.
func internalPrompt(text string) bool {
	return strings.HasPrefix(text, "<session_context>") || strings.HasPrefix(text, "<hook_context>") ||
		strings.HasPrefix(text, "[Function Response: ")
}

// replayedOther handles a replayed update that is not a prompt.
func (t *Translator) replayedOther(text string) {
	t.Replayed = true
	if text == "" || text != t.dialect.Filler {
		t.Replay.Last = ""
	}
}

// replaying reports whether updates are history: there is no prompt that they
// could answer.
func (t *Translator) replaying() bool { return len(t.Turns) == 0 && t.Phase != ready }

// settled handles the answer to a request that waits for the history's end.
func (t *Translator) settled(id string) bool {
	if t.Phase != settling || !strings.HasPrefix(id, t.Process+"/settle-") {
		return false
	}
	if t.Replayed {
		t.Replayed = false
		t.Settle++
		return true
	}
	t.Phase = ready
	return true
}

// resolveDoubt checks whether the last prompt of the previous process reached the
// agent: what it has read is replayed. One that did not was never sent, and the
// next one, usually the same again, takes its place.
func (t *Translator) resolveDoubt() {
	if t.Replay.Base {
		t.Prompts, t.Replay.Base = max(t.Prompts, t.Replay.Prompts), false
	}
	d := t.Doubt
	t.Doubt = nil
	if d == nil || t.Replay.Last == *d {
		return
	}
	t.Prompts--
}

// Due returns what the protocol requires now.
func (t *Translator) Due() []adapters.Message {
	var due []adapters.Message
	for _, m := range t.due() {
		if !t.given[m.ID] {
			t.given[m.ID] = true
			due = append(due, m)
		}
	}
	return due
}

func (t *Translator) due() []adapters.Message {
	var due []adapters.Message
	switch t.Phase {
	case initialized:
		due = append(due, t.openSession())
	case reopen:
		due = append(due, t.request(t.Process+"/session-2", "session/new", t.replacing(t.state.Session)))
	case again:
		due = append(due, t.request(t.Unusable+"-again", "session/new", t.newSession()))
	case settling:
		id := fmt.Sprintf("%s/settle-%d", t.Process, t.Settle)
		if _, waits := t.Sent[id]; !waits {
			due = append(due, t.request(id, "session/set_mode", map[string]any{
				"sessionId": t.state.Session, "modeId": t.harmlessMode()}))
		}
	case ready:
		if name := t.launch.Model; t.dialect.AskModel && name != "" && name != t.Model && t.Asked == "" {
			due = append(due, t.setModel(t.Process+"/model", name))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Unserved)) {
		due = append(due, t.reply(t.Process+"/unserved-"+id, t.Unserved[id], nil,
			&fault{Code: -32601, Message: "the client does not offer this method"}))
	}
	return append(due, t.cancelAsks()...)
}

// cancelAsks answers permission requests of a cancelled turn: the agent does not
// end it before.
func (t *Translator) cancelAsks() []adapters.Message {
	if len(t.Turns) == 0 || !t.Turns[0].Cancelled {
		return nil
	}
	var due []adapters.Message
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		due = append(due, t.reply(id+"/cancelled", t.Asks[id].ID,
			map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil))
	}
	return due
}

// harmlessMode returns a mode that can be set without effect.
func (t *Translator) harmlessMode() string {
	if t.dialect.Modes == nil {
		return t.Mode
	}
	return t.dialect.mode(t.launch.Permission)
}

// promptsKey notes in the request for an old session how many prompts it has had in
// the agent's files, by which later ones are named there. The translation has that
// from the records alone then: it may not have seen the earlier prompts, and not
// known whether a process that died had stored its last one.
const promptsKey = "sojourn.prompts"

func (t *Translator) openSession() adapters.Message {
	id := t.Process + "/session"
	if method := t.opens(); t.launch.Resume && t.launch.NativeID != "" && method != "" {
		params := t.newSession()
		params["sessionId"] = t.launch.NativeID
		if !t.dialect.Kept {
			params["_meta"] = map[string]any{promptsKey: t.launch.Prompts}
		}
		return t.request(id, method, params)
	}
	if !t.launch.Resume {
		return t.request(id, "session/new", t.newSession())
	}
	return t.request(id, "session/new", t.replacing(t.launch.NativeID))
}

func (t *Translator) newSession() map[string]any {
	return map[string]any{"cwd": t.launch.Workspace, "mcpServers": servers(t.launch.MCPServers)}
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func pairs(m map[string]string) []pair {
	out := []pair{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{name, m[name]})
	}
	return out
}

// servers returns the launch's MCP servers in the protocol's form.
func servers(all map[string]adapters.MCPServer) []any {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		if s.URL != "" {
			out = append(out, map[string]any{"type": "http", "name": name, "url": s.URL, "headers": pairs(s.Headers)})
			continue
		}
		args := s.Args
		if args == nil {
			args = []string{}
		}
		out = append(out, map[string]any{"name": name, "command": s.Command, "args": args, "env": pairs(s.Env)})
	}
	return out
}
