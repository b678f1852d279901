package opencode

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// asks translates the agent's requests to the host, and what became of them.
func (t *translator) asks(kind string, p *properties) {
	switch kind {
	case "permission.asked":
		t.permissionAsked(p)
	case "question.asked":
		t.questionAsked(p)
	case "permission.replied":
		decision := "allow"
		if p.Reply == "reject" {
			decision = "deny"
		}
		t.resolve(p.RequestID, decision, p.Message)
	case "question.replied":
		t.resolve(p.RequestID, "allow", "")
	case "question.rejected":
		t.resolve(p.RequestID, "deny", "")
	}
}

func (t *translator) permissionAsked(p *properties) {
	if t.Asks[p.ID] != nil {
		return
	}
	th := t.thread(p.SessionID)
	t.Asks[p.ID] = &ask{Conversation: th.Conversation}
	e := event.PermissionRequested{RequestID: p.ID, ToolName: p.Permission, Input: p.Metadata}
	if len(e.Input) == 0 || string(e.Input) == "null" || string(e.Input) == "{}" {
		e.Input, _ = json.Marshal(map[string]any{"patterns": p.Patterns}) // texts can be encoded
	}
	if len(p.Patterns) > 0 {
		e.Title = p.Permission + ": " + p.Patterns[0]
	}
	if p.Tool != nil {
		e.ToolUseID = p.Tool.CallID
	}
	t.Emit(th.Conversation, e)
}

func (t *translator) questionAsked(p *properties) {
	if t.Asks[p.ID] != nil {
		return
	}
	th := t.thread(p.SessionID)
	a := &ask{Conversation: th.Conversation, Question: true}
	var questions []json.RawMessage
	_ = json.Unmarshal(p.Questions, &questions) // of another shape there are none
	a.Questions = len(questions)
	t.Asks[p.ID] = a
	e := event.PermissionRequested{RequestID: p.ID, ToolName: "question", Questions: p.Questions}
	e.Input, _ = json.Marshal(map[string]any{"questions": p.Questions})
	if p.Tool != nil {
		e.ToolUseID = p.Tool.CallID
	}
	t.Emit(th.Conversation, e)
}

// resolve emits once what became of a request.
func (t *translator) resolve(id, decision, message string) {
	a := t.Asks[id]
	if a == nil {
		return
	}
	delete(t.Asks, id)
	if a.Denied {
		decision = "deny" // a question is refused by an answer
	}
	if message == "" {
		message = a.Message
	}
	t.Emit(a.Conversation, event.PermissionResolved{RequestID: id, Decision: decision, Message: message})
}

// cancelAsks closes the requests of a conversation whose turn is over: after an
// abort the agent does not report them. "" means all.
func (t *translator) cancelAsks(conversation string) {
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		if conversation == "" || t.Asks[id].Conversation == conversation {
			t.resolve(id, "cancelled", "")
		}
	}
}

// replied records the text of the host's answer, which the agent does not repeat.
func (t *translator) replied(id string, body json.RawMessage) {
	a := t.Asks[id]
	if a == nil {
		return
	}
	var b struct {
		Reply   string `json:"reply"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &b) // the server rejects another shape
	a.Message, a.Answered, a.Denied = "", true, b.Reply == "reject"
	if a.Denied {
		a.Message = b.Message
	}
}
