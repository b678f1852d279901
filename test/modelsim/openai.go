package modelsim

import (
	"encoding/json"
	"net/http"
	"strings"
)

// textPiece is a piece of content in OpenAI's protocols.
type textPiece struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// pieceTexts reads content that is a string or an array of pieces.
func pieceTexts(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return []string{text}, err
	}
	var pieces []textPiece
	err := json.Unmarshal(raw, &pieces)
	var texts []string
	for _, p := range pieces {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return texts, err
}

// joined is a tool result, which is never refused: agents write it.
func joined(raw json.RawMessage) string {
	texts, err := pieceTexts(raw)
	if err != nil {
		return string(raw)
	}
	return strings.Join(texts, " ")
}

// openAISession is how OpenAI's agents name their session: Codex, subagents
// included, in session-id; OpenCode in x-session-id, where a subagent has a
// session of its own and names the one above it.
func openAISession(h http.Header) (session, parent string) {
	if id := h.Get("Session-Id"); id != "" {
		return id, ""
	}
	return h.Get("X-Session-Id"), h.Get("X-Parent-Session-Id")
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func newOpenAIError(status int, message string) openAIError {
	e := openAIError{Message: message, Type: "invalid_request_error"}
	code := ""
	switch {
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusNotFound:
		code = "not_found"
	case status == http.StatusTooManyRequests:
		e.Type, code = "rate_limit_error", "rate_limit_exceeded"
	case status >= 500:
		e.Type = "server_error"
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

func writeOpenAIError(w http.ResponseWriter, status int, message string) error {
	w.Header().Set("X-Request-Id", newID("req_"))
	return writeJSON(w, status, map[string]any{"error": newOpenAIError(status, message)})
}
