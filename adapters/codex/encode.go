package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// The opening: initialize; with its answer initialized and thread/resume, or
// thread/start if no id was chosen; with that one's answer the program takes
// prompts.

// greet continues the opening once the program has answered initialize.
func (t *translator) greet() {
	method, params := "thread/start", threadParams(t.launch)
	if t.launch.NativeID != "" {
		method = "thread/resume"
		params["threadId"] = t.launch.NativeID
		// The conversation so far is known: emitting it here would duplicate it.
		params["excludeTurns"] = true
	}
	t.dueLine(t.Opening.Initialize+"-initialized", map[string]any{"method": "initialized"})
	id := t.Opening.Initialize + "-thread"
	t.dueLine(id, map[string]any{"id": id, "method": method, "params": params})
}

// threadParams returns the settings with which a thread is opened.
func threadParams(l adapters.Launch) map[string]any {
	policy, sandbox := permissions(l.Permission)
	params := map[string]any{"cwd": l.Workspace, "approvalPolicy": policy, "sandbox": sandbox}
	if l.Model != "" {
		params["model"] = l.Model
	}
	if l.SystemPrompt != "" {
		params["developerInstructions"] = l.SystemPrompt
	}
	return params
}

// permissions: with allow the program never asks. With ask and deny it asks the
// host before everything that is not known to only read. The program's own
// sandbox is off in both: the session's sandbox is the boundary, and in it the
// program could not make another one.
func permissions(p adapters.Permission) (approvalPolicy, sandbox string) {
	if p == adapters.PermissionAsk || p == adapters.PermissionDeny {
		return askAlways, noSandbox
	}
	return askNothing, noSandbox
}

const (
	askNothing = "never"
	askAlways  = "untrusted"
	noSandbox  = "danger-full-access"
)

// maxPrompt is how many characters the program accepts in one message.
const maxPrompt = 1 << 20

func (t *translator) dueLine(id string, line map[string]any) {
	t.due = append(t.due, adapters.Message{ID: id, Data: object(line)})
}

// Encode returns the lines for an input.
func (t *translator) Encode(id string, in adapters.Input) ([]adapters.Message, error) {
	switch in := in.(type) {
	case adapters.Initialize:
		return []adapters.Message{request(id, "initialize", map[string]any{
			"clientInfo": map[string]any{"name": "sojourn", "title": "Sojourn", "version": "1"},
			"capabilities": map[string]any{
				"experimentalApi": true,
				// The whole diff of the turn, repeated with each change.
				"optOutNotificationMethods": []string{"turn/diff/updated"},
			},
		})}, nil
	case adapters.Answer:
		return t.encodeAnswer(id, in)
	}
	switch t.Opening.Phase {
	case ready:
	case refused:
		return nil, fmt.Errorf("codex: %w: %s", adapters.ErrRefused, t.Opening.Refused)
	default:
		return nil, fmt.Errorf("codex: %w", adapters.ErrNotYet)
	}
	switch in := in.(type) {
	case adapters.Prompt:
		return t.encodePrompt(id, in)
	case adapters.Interrupt:
		return t.encodeInterrupt(id)
	case adapters.SetModel:
		return t.encodeSettings(id, map[string]any{"model": in.Model})
	case adapters.SetPermission:
		return t.encodePermission(id, in)
	}
	return nil, fmt.Errorf("codex: encode %T: %w", in, adapters.ErrUnsupported)
}

func request(id, method string, params map[string]any) adapters.Message {
	return adapters.Message{ID: id, Data: object(map[string]any{"id": id, "method": method, "params": params})}
}

// steered ends the id of a request for a message that is for the running turn: by
// the records alone it could also begin the next one.
const steered = "#steered"

// encodePrompt starts a turn. If one is running, the program folds the message
// into it, which is what steering is.
func (t *translator) encodePrompt(id string, in adapters.Prompt) ([]adapters.Message, error) {
	inputs, err := promptInputs(in)
	if err != nil {
		return nil, err
	}
	if n := textLength(in); n > maxPrompt {
		return nil, fmt.Errorf("codex: prompt of %d characters, and the program takes %d: %w", n, maxPrompt, adapters.ErrUnsupported)
	}
	params := map[string]any{"threadId": t.Main, "input": inputs}
	if in.MessageID != "" {
		params["clientUserMessageId"] = in.MessageID
	}
	if in.Model != "" {
		params["model"] = in.Model
	}
	if in.Permission != "" {
		policy, _ := permissions(in.Permission)
		params["approvalPolicy"] = policy
		params["sandboxPolicy"] = map[string]any{"type": "dangerFullAccess"}
	}
	if !in.Steer {
		return []adapters.Message{request(id, "turn/start", params)}, nil
	}
	m := request(id+steered, "turn/start", params)
	m.ID = id
	return []adapters.Message{m}, nil
}

func promptInputs(in adapters.Prompt) ([]map[string]any, error) {
	var inputs []map[string]any
	if in.Text != "" || len(in.Parts) == 0 {
		inputs = append(inputs, map[string]any{"type": "text", "text": in.Text})
	}
	for i, p := range in.Parts {
		part, err := promptPart(p)
		if err != nil {
			return nil, fmt.Errorf("codex: prompt part %d of type %q: %w", i, p.Type, err)
		}
		inputs = append(inputs, part)
	}
	return inputs, nil
}

func textLength(in adapters.Prompt) int {
	n := utf8.RuneCountInString(in.Text)
	for _, p := range in.Parts {
		n += utf8.RuneCountInString(p.Text)
	}
	return n
}

func promptPart(p event.Part) (map[string]any, error) {
	switch {
	case p.Type == "text":
		return map[string]any{"type": "text", "text": p.Text}, nil
	case p.Type == "image" && p.Data != "":
		return map[string]any{"type": "image", "url": "data:" + cmp.Or(p.MediaType, "image/png") + ";base64," + p.Data}, nil
	case p.Type == "image" && p.URL != "":
		return map[string]any{"type": "image", "url": p.URL}, nil
	}
	return nil, adapters.ErrUnsupported
}

// encodeInterrupt stops every turn that runs, subagents first: the end of the
// main thread's turn leaves theirs running. A prompt whose turn has no id yet, or has
// not begun, can't be stopped yet.
func (t *translator) encodeInterrupt(id string) ([]adapters.Message, error) {
	for _, c := range t.Calls {
		if c.Method == "turn/start" {
			return nil, fmt.Errorf("codex: interrupt: %w", adapters.ErrNotYet)
		}
	}
	var running []string
	for _, threadID := range t.threads() {
		if t.Threads[threadID].Turn != "" && threadID != t.Main {
			running = append(running, threadID)
		}
	}
	if main := t.Threads[t.Main]; main != nil && main.Turn != "" {
		if main.Starting {
			return nil, fmt.Errorf("codex: interrupt: %w", adapters.ErrNotYet)
		}
		running = append(running, t.Main)
	}
	messages := make([]adapters.Message, len(running))
	for i, threadID := range running {
		turn := t.Threads[threadID].Turn
		messageID := id
		if i > 0 {
			messageID = fmt.Sprint(id, "-", i+1)
		}
		messages[i] = request(messageID, "turn/interrupt", map[string]any{"threadId": threadID, "turnId": turn})
	}
	return slices.Clip(messages), nil
}

func (t *translator) encodePermission(id string, in adapters.SetPermission) ([]adapters.Message, error) {
	switch in.Permission {
	case adapters.PermissionAllow, adapters.PermissionAsk, adapters.PermissionDeny:
		policy, _ := permissions(in.Permission)
		return t.encodeSettings(id, map[string]any{
			"approvalPolicy": policy, "sandboxPolicy": map[string]any{"type": "dangerFullAccess"}})
	}
	return nil, fmt.Errorf("codex: set permission to %q: %w", in.Permission, adapters.ErrUnsupported)
}

// encodeSettings changes what applies from the next turn on.
func (t *translator) encodeSettings(id string, settings map[string]any) ([]adapters.Message, error) {
	settings["threadId"] = t.Main
	return []adapters.Message{request(id, "thread/settings/update", settings)}, nil
}

// askKind is a kind of request that the host can decide on.
type askKind struct {
	// tool is the name of the tool that asks.
	tool string
	// answer returns the response for a decision.
	answer func(adapters.Answer) any
}

var askKinds = map[string]askKind{
	"item/commandExecution/requestApproval": {shellTool, decision},
	"item/fileChange/requestApproval":       {patchTool, decision},
	"item/permissions/requestApproval":      {"request_permissions", permissionGrant},
	"item/tool/requestUserInput":            {"request_user_input", userInput},
	"mcpServer/elicitation/request":         {"mcp_elicitation", elicitation},
}

func decision(in adapters.Answer) any {
	if in.Allow {
		return map[string]any{"decision": "accept"}
	}
	return map[string]any{"decision": "decline"}
}

// permissionGrant returns the requested permissions, for this turn, or none.
func permissionGrant(in adapters.Answer) any {
	var asked struct {
		Permissions json.RawMessage `json:"permissions"`
	}
	granted := json.RawMessage("{}")
	if in.Allow && json.Unmarshal(in.Input, &asked) == nil && len(asked.Permissions) > 0 {
		granted = asked.Permissions
	}
	return map[string]any{"permissions": granted, "scope": "turn"}
}

// userInput passes on the answers: an object of question id → answer, where an
// answer is a text or a list of texts.
func userInput(in adapters.Answer) any {
	out := map[string]any{}
	var given struct {
		Answers map[string]json.RawMessage `json:"answers"`
	}
	if in.Allow && json.Unmarshal(in.Input, &given) == nil {
		for id, raw := range given.Answers {
			out[id] = map[string]any{"answers": answerTexts(raw)}
		}
	}
	return map[string]any{"answers": out}
}

func answerTexts(raw json.RawMessage) []string {
	var wrapped struct {
		Answers []string `json:"answers"`
	}
	var list []string
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return []string{text}
	case json.Unmarshal(raw, &list) == nil:
		return list
	case json.Unmarshal(raw, &wrapped) == nil:
		return wrapped.Answers
	}
	return []string{string(raw)}
}

// elicitation answers an MCP server's question; the content is the host's input.
func elicitation(in adapters.Answer) any {
	if !in.Allow {
		return map[string]any{"action": "decline", "content": nil}
	}
	var given struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(in.Input, &given) != nil || len(given.Content) == 0 {
		given.Content = json.RawMessage("{}")
	}
	return map[string]any{"action": "accept", "content": given.Content}
}

// encodeAnswer answers a request of the program. The protocol has no field for
// the text of a denial.
func (t *translator) encodeAnswer(id string, in adapters.Answer) ([]adapters.Message, error) {
	a, waits := t.Asks[in.RequestID]
	if !waits {
		return nil, nil // it was withdrawn
	}
	line := map[string]any{"id": a.Raw, "result": askKinds[a.Method].answer(in)}
	return []adapters.Message{{ID: id, Data: object(line)}}, nil
}
