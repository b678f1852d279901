package modelsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// chat is OpenAI's chat completions API, which OpenCode speaks, and most
// servers of open models.
type chat struct{}

var _ api = chat{}

// chatRequest is what we read of a POST /v1/chat/completions.
type chatRequest struct {
	Model    string        `json:"model"`
	Stream   bool          `json:"stream"`
	Messages []chatMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (chat) decode(r *http.Request, body []byte) (asked, error) {
	a, err := decodeChat(body)
	a.session, a.parent = openAISession(r.Header)
	return a, err
}

// decodeChat reads a request body.
func decodeChat(body []byte) (asked, error) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return asked{}, fmt.Errorf("request body: %w", err)
	}
	a := asked{model: req.Model, stream: req.Stream, usage: req.StreamOptions.IncludeUsage}
	if req.Model == "" {
		return a, errors.New("you must provide a model parameter")
	}
	if len(req.Messages) == 0 {
		return a, errors.New("messages: at least one message is required")
	}
	for _, t := range req.Tools {
		a.Tools = append(a.Tools, t.Function.Name)
	}
	instructed := false
	for i, m := range req.Messages {
		texts, err := pieceTexts(m.Content)
		if err != nil {
			return a, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		switch m.Role {
		case "system", "developer":
			instructed = true
		case "user":
			a.addMessage(texts)
		case "tool":
			a.addResult(Result{Text: joined(m.Content)})
		}
	}
	a.Schema = req.ResponseFormat.JSONSchema.Schema
	a.Side = isSide(a.Conversation, instructed)
	return a, nil
}

// isSide reports whether an agent asks for itself: one that instructs the model
// but lends it no tools wants no work done.
func isSide(c Conversation, instructed bool) bool {
	return len(c.Tools) == 0 && (instructed || c.Schema != nil)
}

func (chat) respond(w http.ResponseWriter, a asked) response {
	if a.stream {
		return newChatStream(w, a)
	}
	return newWholeChat(w, a)
}

func (chat) fail(w http.ResponseWriter, status int, message string) error {
	return writeOpenAIError(w, status, message)
}
