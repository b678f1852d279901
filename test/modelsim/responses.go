package modelsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responses is OpenAI's responses API, which Codex speaks.
type responses struct{}

var _ api = responses{}

// responsesRequest is what we read of a POST /v1/responses.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
	CacheKey     string          `json:"prompt_cache_key"`
	Text         struct {
		Format struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

// responsesTool is a tool, or a namespace with tools in it.
type responsesTool struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Tools []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tools"`
}

type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	// Author is the agent that wrote a message to another one.
	Author string `json:"author"`
	// Tools are those that a message of the developer lends.
	Tools []responsesTool `json:"tools"`
	// A call of a tool, and what came of it.
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	CallID    string          `json:"call_id"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func (responses) decode(r *http.Request, body []byte) (asked, error) {
	a, err := decodeResponses(body)
	if session, parent := openAISession(r.Header); session != "" {
		a.session, a.parent = session, parent
	}
	return a, err
}

// decodeResponses reads a request body.
func decodeResponses(body []byte) (asked, error) {
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return asked{}, fmt.Errorf("request body: %w", err)
	}
	a := asked{model: req.Model, stream: req.Stream, session: req.CacheKey}
	if req.Model == "" {
		return a, errors.New("missing required parameter: 'model'")
	}
	for _, t := range req.Tools {
		a.offer(t)
	}
	items, err := decodeInput(req.Input)
	if err != nil {
		return a, fmt.Errorf("input: %w", err)
	}
	in := itemReader{Conversation: &a.Conversation, calls: map[string]responsesItem{}, instructed: req.Instructions != ""}
	for i, item := range items {
		if err := in.add(item); err != nil {
			return a, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	a.Schema = req.Text.Format.Schema
	a.Side = isSide(a.Conversation, in.instructed)
	return a, nil
}

func (c *Conversation) offer(t responsesTool) {
	if t.Type != "namespace" {
		if t.Name != "" { // what the server itself runs has none
			c.Tools = append(c.Tools, t.Name)
		}
		return
	}
	for _, inner := range t.Tools {
		name := t.Name + "." + inner.Name
		c.Tools = append(c.Tools, name)
		if name == codeTool {
			c.offerNested(inner.Description)
		}
	}
}

// decodeInput reads input that is a string or an array of items.
func decodeInput(raw json.RawMessage) (items []responsesItem, err error) {
	if len(raw) == 0 {
		return nil, errors.New("missing required parameter")
	}
	if raw[0] == '"' {
		return []responsesItem{{Role: "user", Content: raw}}, nil
	}
	err = json.Unmarshal(raw, &items)
	return items, err
}

// itemReader makes a conversation of a list of items.
type itemReader struct {
	*Conversation
	calls      map[string]responsesItem
	instructed bool
}

func (in *itemReader) add(item responsesItem) error {
	switch item.Type {
	case "", "message":
		return in.message(item)
	case "function_call", "custom_tool_call":
		in.calls[item.CallID] = item
	case "function_call_output", "custom_tool_call_output":
		call := in.calls[item.CallID]
		if name := call.Namespace + "." + call.Name; name == codeTool || name == codeWait {
			in.scriptOutput(item.Output)
		} else {
			in.output(call, joined(item.Output))
		}
	case "additional_tools":
		for _, t := range item.Tools {
			in.offer(t)
		}
	case "agent_message":
		return in.mailed(item)
	}
	return nil
}

func (in *itemReader) message(item responsesItem) error {
	texts, err := pieceTexts(item.Content)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	switch item.Role {
	case "system", "developer":
		in.instructed = true
	case "user":
		for _, text := range texts {
			in.notification(text)
		}
		in.addMessage(texts)
	}
	return nil
}

// notification reads the message by which Codex reports that a subagent ended.
func (in *itemReader) notification(text string) {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), "<subagent_notification>")
	if !ok {
		return
	}
	var n struct {
		Path   string          `json:"agent_path"`
		Status json.RawMessage `json:"status"`
	}
	text = strings.TrimSuffix(text, "</subagent_notification>")
	if json.Unmarshal([]byte(text), &n) == nil {
		in.report(n.Path, n.Status)
	}
}

func (in *itemReader) output(call responsesItem, text string) {
	r := Result{Text: text}
	switch call.Name {
	case "spawn_agent":
		var spawned struct {
			ID   string `json:"agent_id"`
			Task string `json:"task_name"`
		}
		if json.Unmarshal([]byte(text), &spawned) == nil {
			r.Agent = spawned.ID + spawned.Task
		}
	case "wait_agent":
		if call.Namespace+"."+call.Name == teamWait && in.awaited() {
			return
		}
		if in.waited(call, text) {
			return
		}
	}
	in.addResult(r)
}

// waited reads what came of a wait for a subagent. It is false if no subagent
// of ours was waited for: then the script itself has called the tool.
func (in *itemReader) waited(call responsesItem, text string) bool {
	var wanted struct {
		Targets []string `json:"targets"`
	}
	if json.Unmarshal([]byte(call.Arguments), &wanted) != nil {
		return false
	}
	var got struct {
		Status   map[string]json.RawMessage `json:"status"`
		TimedOut bool                       `json:"timed_out"`
	}
	readable := json.Unmarshal([]byte(text), &got) == nil
	ours := false
	for _, id := range wanted.Targets {
		r := in.agent(id)
		if r == nil {
			continue
		}
		ours = true
		status, ended := got.Status[id]
		if !readable { // it said what went wrong; to wait again would not help
			status, ended = quoted(text), true
		}
		if ended {
			in.report(id, status)
			r.Waited = len(in.Turns)
		}
	}
	if ours {
		in.turn().Waits++
	}
	return ours
}

// awaited counts a wait for whichever subagent reports next. It is false if none
// is at work: then the script itself has called the tool.
func (c *Conversation) awaited() bool {
	for _, t := range c.Turns {
		for _, r := range t.Results {
			if r.Agent != "" && !r.Reported {
				c.turn().Waits++
				return true
			}
		}
	}
	return false
}

func (c *Conversation) agent(id string) *Result {
	for _, t := range slices.Backward(c.Turns) {
		for i := range t.Results {
			if t.Results[i].Agent == id && id != "" {
				return &t.Results[i]
			}
		}
	}
	return nil
}

// report notes the end of a subagent. Its last words are the result of the
// call that started it, as they are with agents that wait by themselves.
func (in *itemReader) report(id string, status json.RawMessage) {
	r := in.agent(id)
	if r == nil {
		return
	}
	r.Reported, r.Text = true, plain(status)
	var words map[string]json.RawMessage
	if json.Unmarshal(status, &words) != nil {
		return
	}
	for state, said := range words {
		r.Text, r.IsError = plain(said), state != "completed"
	}
}

func (responses) respond(w http.ResponseWriter, a asked) response {
	if a.stream {
		return newResponsesStream(w, a)
	}
	return newWholeResponse(w, a)
}

func (responses) fail(w http.ResponseWriter, status int, message string) error {
	return writeOpenAIError(w, status, message)
}
