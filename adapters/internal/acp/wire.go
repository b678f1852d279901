package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// message is one line of the protocol: a request, an answer or a notification.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *fault          `json:"error"`

	// Type and Text are those of a prompt at the beginning of the records.
	Type string `json:"type"`
	Text string `json:"text"`
}

// params are those of all methods; they share their names.
type params struct {
	SessionID string          `json:"sessionId"`
	Update    *update         `json:"update"`
	ToolCall  *ToolCall       `json:"toolCall"`
	Options   []option        `json:"options"`
	Prompt    []Content       `json:"prompt"`
	ModelID   string          `json:"modelId"`
	ModeID    string          `json:"modeId"`
	ConfigID  string          `json:"configId"`
	Value     any             `json:"value"`
	Meta      json.RawMessage `json:"_meta"`
}

// update is the body of a session/update.
type update struct {
	Kind      string `json:"sessionUpdate"`
	MessageID string `json:"messageId"`
	ToolCall
	CurrentModeID string `json:"currentModeId"`
	Cost          *price `json:"cost"`
	Commands      []struct {
		Name string `json:"name"`
	} `json:"availableCommands"`
}

// ToolCall is a tool call in an update or a permission request. In an update
// fields that did not change are missing.
type ToolCall struct {
	ID     string `json:"toolCallId"`
	Status string `json:"status"`
	Title  string `json:"title"`
	Kind   string `json:"kind"`
	// Content is that of a chunk too, so it is decoded later.
	Content   json.RawMessage `json:"content"`
	Locations json.RawMessage `json:"locations"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
}

// Content is one piece of a message.
type Content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Data     string `json:"data,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Output is one piece of a tool call's content: a content, or the change of a
// file.
type Output struct {
	Type    string   `json:"type"`
	Content *Content `json:"content,omitempty"`
	Path    string   `json:"path,omitempty"`
	OldText string   `json:"oldText,omitempty"`
	NewText string   `json:"newText,omitempty"`
	// TerminalID names a terminal of the client.
	TerminalID string `json:"terminalId,omitempty"`
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// fault is an error of JSON-RPC.
type fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// text returns the error's text: some agents put the reason into the data.
func (f *fault) text() string {
	var details struct {
		Details string `json:"details"`
	}
	if json.Unmarshal(f.Data, &details) == nil && details.Details != "" && !strings.Contains(f.Message, details.Details) {
		return f.Message + ": " + details.Details
	}
	return f.Message
}

// code distinguishes an error of the model's API from one of the agent.
func (f *fault) code() string {
	if f.Code >= 400 && f.Code < 600 {
		return fmt.Sprintf("api_error_%d", f.Code)
	}
	return "agent_error"
}

// key returns a JSON-RPC id as a string, whatever its type on the wire.
func key(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return s
	}
	return string(id)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// decode reads a line, which must be a JSON object. known is false for one that
// is not a message of the protocol as this package understands it.
func decode(line string) (m *message, known bool, err error) {
	data := bytes.TrimSpace([]byte(line))
	if len(data) == 0 || data[0] != '{' {
		return nil, false, fmt.Errorf("not a JSON object")
	}
	m = new(message)
	if err := json.Unmarshal(data, m); err != nil {
		if json.Valid(data) {
			return m, false, nil
		}
		return nil, false, err
	}
	return m, true, nil
}

// chunk reads the content of a chunk.
func chunk(raw json.RawMessage) (Content, bool) {
	var c Content
	if isNull(raw) || json.Unmarshal(raw, &c) != nil {
		return c, false
	}
	return c, true
}

// Outputs returns the content of a tool call; nil for none.
func (c *ToolCall) Outputs() []Output {
	var out []Output
	if isNull(c.Content) || json.Unmarshal(c.Content, &out) != nil {
		return nil
	}
	return out
}

// OutputOf returns a call's content for a tool_result block: the text if there is
// only text, null for nothing, else the pieces unchanged.
func OutputOf(pieces []Output) json.RawMessage {
	if len(pieces) == 0 {
		return json.RawMessage("null")
	}
	texts := make([]string, 0, len(pieces))
	for _, p := range pieces {
		if p.Content == nil || p.Content.Type != "text" {
			return nativejson.Encode(pieces)
		}
		texts = append(texts, p.Content.Text)
	}
	return nativejson.Encode(strings.Join(texts, "\n"))
}

// compact returns JSON without spaces: its bytes don't change in the stored
// state.
func compact(raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		return nil
	}
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return raw
	}
	return buf.Bytes()
}

// Parts returns the pieces of a prompt for a block: the text, and all pieces if
// there are others than text.
func Parts(pieces []Content) (text string, parts []event.Part) {
	var texts []string
	rich := false
	for _, c := range pieces {
		p := event.Part{Type: c.Type, Text: c.Text, MediaType: c.MimeType, Data: c.Data, URL: c.URI}
		if c.Type == "text" {
			texts = append(texts, c.Text)
		} else {
			rich = true
		}
		parts = append(parts, p)
	}
	if !rich {
		parts = nil
	}
	return strings.Join(texts, "\n"), parts
}
