package modelsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// anthropic is the messages API, which Claude Code speaks.
type anthropic struct{}

var _ api = anthropic{}

func (anthropic) decode(r *http.Request, body []byte) (asked, error) {
	req, c, err := decodeAnthropic(body)
	return asked{Conversation: c, session: r.Header.Get(sessionHeader), model: req.Model, stream: req.Stream}, err
}

func (anthropic) respond(w http.ResponseWriter, a asked) response {
	if a.stream {
		return newEventSink(w, a.model, a.Tools)
	}
	return newWholeMessage(w, a)
}

func (anthropic) fail(w http.ResponseWriter, status int, message string) error {
	return writeAPIError(w, status, message)
}

// messagesRequest is what we read of a POST /v1/messages.
type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type contentBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

// decodeAnthropic reads a request body. It fails on what the real server
// would refuse too; content of kinds it does not know is skipped.
func decodeAnthropic(body []byte) (messagesRequest, Conversation, error) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return req, Conversation{}, fmt.Errorf("request body: %w", err)
	}
	if req.Model == "" {
		return req, Conversation{}, errors.New("model: field required")
	}
	if len(req.Messages) == 0 {
		return req, Conversation{}, errors.New("messages: at least one message is required")
	}
	var c Conversation
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, t.Name)
	}
	for i, m := range req.Messages {
		blocks, err := decodeContent(m.Content)
		if err != nil {
			return req, Conversation{}, fmt.Errorf("messages.%d.content: %w", i, err)
		}
		switch m.Role {
		case "user":
			c.addUser(blocks)
		case "system":
			c.addSystem(blocks)
		}
	}
	return req, c, nil
}

// decodeContent reads content that is a string or an array of blocks.
func decodeContent(raw json.RawMessage) ([]contentBlock, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return []contentBlock{{Type: "text", Text: text}}, err
	}
	var blocks []contentBlock
	err := json.Unmarshal(raw, &blocks)
	return blocks, err
}

func (c *Conversation) addUser(blocks []contentBlock) {
	for _, b := range blocks {
		switch b.Type {
		case "text":
			c.addText(b.Text)
		case "tool_result":
			c.addToolResult(b)
		}
	}
}

func (c *Conversation) addToolResult(b contentBlock) {
	text := resultText(b.Content)
	c.addResult(Result{Text: text, IsError: b.IsError})
	if t := c.turn(); t != nil {
		t.fold(text)
	}
}

// addSystem reads a message of the command line within the conversation. Only
// one kind matters: what the user wrote in the meantime, which newer models
// are sent in this way and older ones inside the tool result.
func (c *Conversation) addSystem(blocks []contentBlock) {
	t := c.turn()
	if t == nil {
		return
	}
	for _, b := range blocks {
		if n := len(t.Results); t.fold(b.Text) && n > 0 {
			t.Results[n-1].Text += "\n\n" + b.Text
		}
	}
}

// meanwhile is how the command line words a message that it folds into a turn.
var meanwhile = regexp.MustCompile(`(?s)The user sent a new message while you were working:\n(.*?)\n\nIMPORTANT:`)

func (t *Turn) fold(text string) (found bool) {
	for _, m := range meanwhile.FindAllStringSubmatch(text, -1) {
		t.Folded = append(t.Folded, strings.TrimSpace(m[1]))
		found = true
	}
	return found
}

func resultText(raw json.RawMessage) string {
	blocks, err := decodeContent(raw)
	if err != nil {
		return string(raw)
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, " ")
}

func (c *Conversation) addText(text string) {
	if strings.HasPrefix(strings.TrimSpace(reminder.ReplaceAllString(text, "")), notice) {
		if t := c.turn(); t != nil {
			t.Notices++
		}
		return
	}
	if prompt := wrote(text); prompt != "" {
		c.Turns = append(c.Turns, Turn{Prompt: prompt})
	}
}

type apiError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func newAPIError(status int, message string) apiError {
	e := apiError{Type: "error", RequestID: newID("req_")}
	e.Error.Type, e.Error.Message = errorType(status), message
	return e
}

// errorType is Anthropic's name of an error status.
func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

func writeAPIError(w http.ResponseWriter, status int, message string) error {
	e := newAPIError(status, message)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", e.RequestID)
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(e)
}
