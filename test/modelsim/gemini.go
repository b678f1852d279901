package modelsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// gemini is Google's API for its models, which Gemini CLI speaks.
type gemini struct{}

var _ api = gemini{}

// geminiRequest is what we read of a request for content. The model is in
// the path.
type geminiRequest struct {
	Contents []struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	} `json:"contents"`
	System json.RawMessage `json:"systemInstruction"`
	Tools  []struct {
		Functions []geminiFunction `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Schema     json.RawMessage `json:"responseSchema"`
		JSONSchema json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type geminiFunction struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	JSONSchema json.RawMessage `json:"parametersJsonSchema"`
}

type geminiPart struct {
	Text     string `json:"text"`
	Response *struct {
		ID       string                     `json:"id"`
		Response map[string]json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func (gemini) decode(r *http.Request, body []byte) (asked, error) {
	model, method, _ := strings.Cut(r.PathValue("action"), ":")
	a, err := decodeGemini(body, method == "streamGenerateContent")
	a.model = model
	// The command line names no session on its own: see the package's doc.
	a.session = r.Header.Get("X-Session-Id")
	return a, err
}

// decodeGemini reads a request body.
func decodeGemini(body []byte, stream bool) (asked, error) {
	a := asked{stream: stream}
	var req geminiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return a, fmt.Errorf("request body: %w", err)
	}
	if len(req.Contents) == 0 {
		return a, errors.New("* GenerateContentRequest.contents: contents is not specified")
	}
	for _, t := range req.Tools {
		for _, f := range t.Functions {
			a.offerFunction(f)
		}
	}
	seen := map[string]bool{}
	for _, c := range req.Contents {
		if c.Role != "model" {
			a.addParts(c.Parts, seen)
		}
	}
	if a.Schema = req.Config.JSONSchema; a.Schema == nil {
		a.Schema = req.Config.Schema
	}
	// The command line streams what it asks for the user, and nothing else.
	unasked := !stream && len(a.Tools) == 0 && !isScript(a.last().Prompt)
	a.Side = unasked || isSide(a.Conversation, req.System != nil)
	return a, nil
}

func (c *Conversation) offerFunction(f geminiFunction) {
	c.Tools = append(c.Tools, f.Name)
	if n, _ := find(ToolFinish, []string{f.Name}); n == nil {
		return
	}
	if c.Finish = f.JSONSchema; c.Finish == nil {
		c.Finish = f.Parameters
	}
}

// addParts reads a message of the user. seen are the ids of the results so
// far: after a resume the command line repeats some.
func (c *Conversation) addParts(parts []geminiPart, seen map[string]bool) {
	var texts []string
	for _, p := range parts {
		switch r := p.Response; {
		case r == nil:
			texts = append(texts, p.Text)
		case r.ID == "" || !seen[r.ID]:
			seen[r.ID] = true
			c.addResult(functionResult(r.Response))
		}
	}
	c.addMessage(texts)
}

// functionResult reads what a function gave back: under output or error by
// the API's convention, else anything.
func functionResult(fields map[string]json.RawMessage) Result {
	for _, name := range []string{"error", "output"} {
		if raw, ok := fields[name]; ok {
			return Result{Text: plain(raw), IsError: name == "error"}
		}
	}
	return Result{Text: string(quoted(fields))}
}

// plain is a JSON string's text, and any other value unchanged.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (gemini) respond(w http.ResponseWriter, a asked) response {
	if a.stream {
		return newGeminiStream(w, a)
	}
	return newWholeGemini(w, a)
}

func (gemini) fail(w http.ResponseWriter, status int, message string) error {
	return writeJSON(w, status, newGeminiError(status, message))
}

func newGeminiError(status int, message string) map[string]any {
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": geminiStatus(status)}}
}

// geminiStatus is Google's name of an error status.
func geminiStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status < 500 {
		return "INVALID_ARGUMENT"
	}
	return "INTERNAL"
}
