package claude

import (
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// asked translates a request of the program to the host.
func (t *translator) asked(l *line, raw json.RawMessage) error {
	var c control
	if err := json.Unmarshal(l.Request, &c); err != nil {
		return err
	}
	if c.Subtype != "can_use_tool" {
		t.Native(event.Main, event.DirOut, l.Type+"/"+c.Subtype, raw)
		t.refuse(l.RequestID)
		return nil
	}
	conversation := t.askedIn(c)
	t.Asks[l.RequestID] = conversation
	ask := event.PermissionRequested{
		RequestID: l.RequestID, ToolName: c.ToolName, ToolUseID: c.ToolUseID,
		Input: c.Input, Title: c.Description,
	}
	if c.ToolName == "AskUserQuestion" {
		var in struct {
			Questions json.RawMessage `json:"questions"`
		}
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return err
		}
		ask.Questions = in.Questions
	}
	t.Emit(conversation, ask)
	return nil
}

// refuse answers a request of a kind that the host can't decide, such as an MCP server's
// elicitation, so that the program does not wait for ever.
func (t *translator) refuse(requestID string) {
	t.due = append(t.due, adapters.Message{ID: "refuse-" + requestID, Data: nativejson.Encode(map[string]any{
		"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": requestID, "error": "not supported by this client"},
	})})
}

// askedIn returns the conversation of a tool that waits for permission. The
// request may precede its call.
func (t *translator) askedIn(c control) string {
	if _, isOpen := t.Tools[c.ToolUseID]; !isOpen && c.AgentID != "" {
		for id, a := range t.Agents {
			if a.ID == c.AgentID {
				return id
			}
		}
	}
	return t.taskConversation(c.ToolUseID)
}

// decided translates the host's answer.
func (t *translator) decided(l *line) error {
	var a controlAnswer
	if err := json.Unmarshal(l.Response, &a); err != nil {
		return err
	}
	if _, pending := t.Asks[a.RequestID]; !pending {
		return nil // an answer to a hook or an MCP message
	}
	var d decision
	if len(a.Response) > 0 {
		if err := json.Unmarshal(a.Response, &d); err != nil {
			return err
		}
	}
	if d.Interrupt {
		t.Turn.Interrupted = true
	}
	if d.Behavior != "allow" {
		d.Behavior = "deny"
	}
	t.resolve(a.RequestID, d.Behavior, d.Message)
	return nil
}

// resolve emits once what became of a permission request.
func (t *translator) resolve(requestID, what, message string) {
	conversation, pending := t.Asks[requestID]
	if !pending {
		return
	}
	delete(t.Asks, requestID)
	t.Emit(conversation, event.PermissionResolved{RequestID: requestID, Decision: what, Message: message})
}

// request records a request of the host to the program.
func (t *translator) request(l *line) error {
	var c control
	if err := json.Unmarshal(l.Request, &c); err != nil {
		return err
	}
	switch c.Subtype {
	case "initialize":
		t.Cost, t.Turn.Begun = 0, false
	case "interrupt":
		t.Turn.Interrupted = t.Turn.Phase != idle
		if t.waits() {
			t.Turn.Result.Interrupted = true
		}
	case "set_model":
		t.Models[l.RequestID] = c.Model
	}
	return nil
}

// answered translates the program's answer to a request of the host.
func (t *translator) answered(l *line) error {
	var a controlAnswer
	if err := json.Unmarshal(l.Response, &a); err != nil {
		return err
	}
	model, isModel := t.Models[a.RequestID]
	delete(t.Models, a.RequestID)
	switch {
	case a.Subtype == "error":
		t.Emit(event.Main, event.Error{ErrorInfo: event.ErrorInfo{
			Message: "claude: " + a.Error, Code: "control_request", Data: nativejson.Encode(a.RequestID),
		}})
	case isModel:
		t.Emit(event.Main, event.OptionsUpdate{Model: &model})
	case len(a.Response) == 0 && t.Turn.Phase != idle:
		// Without the input side this is the only trace of an interrupt.
		t.Turn.Interrupted = true
	default:
		t.learnCommands(a.Response)
	}
	return nil
}

// learnCommands reads the other names of commands from the answer to initialize;
// answers to other requests have none.
func (t *translator) learnCommands(answer json.RawMessage) {
	var a struct {
		Commands []struct {
			Name    string   `json:"name"`
			Aliases []string `json:"aliases"`
		} `json:"commands"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return
	}
	for _, c := range a.Commands {
		for _, alias := range c.Aliases {
			t.Aliases[alias] = c.Name
		}
	}
}
