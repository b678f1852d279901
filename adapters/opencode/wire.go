package opencode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// line is one native record: a server-sent event, a request of the host and its
// response, or a line of the headless mode. Recordings wrap the same things
// differently, in further fields.
type line struct {
	ID         string      `json:"id"`
	Type       string      `json:"type"`
	Properties *properties `json:"properties"`

	// The headless mode has the part beside the type.
	SessionID string    `json:"sessionID"`
	Part      *part     `json:"part"`
	Error     *apiError `json:"error"`

	// A request in the runner's form, and its response.
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body"`
	Status int             `json:"status"`
	// Ended means that the process ended before it responded.
	Ended bool `json:"ended"`

	// Event is an event in a recording, the rest a request in one with its
	// response.
	Event      json.RawMessage `json:"ev"`
	RecMethod  string          `json:"m"`
	RecPath    string          `json:"p"`
	RecAnswer  json.RawMessage `json:"resp"`
	PromptText json.RawMessage `json:"text"`
}

// properties is the body of an event. Version 1.0 has the delta of a text beside
// its part.
type properties struct {
	SessionID string    `json:"sessionID"`
	Info      *info     `json:"info"`
	Part      *part     `json:"part"`
	PartID    string    `json:"partID"`
	Field     string    `json:"field"`
	Delta     string    `json:"delta"`
	Status    *status   `json:"status"`
	Error     *apiError `json:"error"`

	// Permission requests and questions.
	ID         string          `json:"id"`
	RequestID  string          `json:"requestID"`
	Permission string          `json:"permission"`
	Patterns   []string        `json:"patterns"`
	Metadata   json.RawMessage `json:"metadata"`
	Tool       *toolRef        `json:"tool"`
	Reply      string          `json:"reply"`
	Message    string          `json:"message"`
	Questions  json.RawMessage `json:"questions"`
}

type toolRef struct {
	CallID string `json:"callID"`
}

// status is the state of a session: busy, idle or retry.
type status struct {
	Type    string `json:"type"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
}

// info is a message, or a session if the event is about one.
type info struct {
	ID         string          `json:"id"`
	SessionID  string          `json:"sessionID"`
	ParentID   string          `json:"parentID"`
	Role       string          `json:"role"`
	ModelID    string          `json:"modelID"`
	ProviderID string          `json:"providerID"`
	Summary    json.RawMessage `json:"summary"`
	Finish     string          `json:"finish"`
	Error      *apiError       `json:"error"`
	Time       struct {
		Completed int64 `json:"completed"`
	} `json:"time"`
}

// model returns the agent's name for a message's model.
func (i *info) model() string {
	if i.ProviderID == "" || i.ModelID == "" {
		return i.ModelID
	}
	return i.ProviderID + "/" + i.ModelID
}

// isSummary distinguishes the answer to a compaction from other answers.
func (i *info) isSummary() bool { return string(i.Summary) == "true" }

// apiError is a failure as the agent reports it.
type apiError struct {
	Name string `json:"name"`
	Data struct {
		Message    string `json:"message"`
		StatusCode int    `json:"statusCode"`
	} `json:"data"`
	Message string `json:"message"`
}

// UnmarshalJSON accepts a failure of any shape, since it is for people to read.
// The runner's is a text.
func (e *apiError) UnmarshalJSON(raw []byte) error {
	if text := nativejson.String(raw); text != "" {
		*e = apiError{Message: text}
		return nil
	}
	type plain apiError
	_ = json.Unmarshal(raw, (*plain)(e))
	return nil
}

// aborted is the name of the failure for an interrupt.
const aborted = "MessageAbortedError"

func (e *apiError) text() string {
	switch {
	case e.Data.Message != "":
		return e.Data.Message
	case e.Message != "":
		return e.Message
	}
	return e.Name
}

func (e *apiError) code() string {
	if e.Data.StatusCode != 0 {
		return fmt.Sprintf("api_error_%d", e.Data.StatusCode)
	}
	if e.Name == "" || e.Name == "APIError" {
		return "api_error"
	}
	return e.Name
}

// part is one piece of a message.
type part struct {
	ID        string `json:"id"`
	MessageID string `json:"messageID"`
	SessionID string `json:"sessionID"`
	Type      string `json:"type"`

	Text      string `json:"text"`
	Synthetic bool   `json:"synthetic"`
	Ignored   bool   `json:"ignored"`
	Time      span   `json:"time"`

	Tool   string     `json:"tool"`
	CallID string     `json:"callID"`
	State  *toolState `json:"state"`

	// file
	MIME     string `json:"mime"`
	Filename string `json:"filename"`
	URL      string `json:"url"`
	// step-finish
	Reason string   `json:"reason"`
	Tokens *tokens  `json:"tokens"`
	Cost   *float64 `json:"cost"`
	// subtask
	Prompt string `json:"prompt"`
	// retry
	Attempt int       `json:"attempt"`
	Error   *apiError `json:"error"`
}

// outline returns what orders a part among others.
func (p *part) outline() *part {
	o := &part{ID: p.ID, MessageID: p.MessageID, SessionID: p.SessionID, Type: p.Type}
	if p.State != nil {
		o.State = &toolState{Status: p.State.Status, Time: p.State.Time}
	}
	return o
}

type span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

type tokens struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cache     struct {
		Read  int64 `json:"read"`
		Write int64 `json:"write"`
	} `json:"cache"`
}

// toolState is the state of a tool call: pending, running, completed or error.
type toolState struct {
	Status      string          `json:"status"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
	Error       string          `json:"error"`
	Metadata    json.RawMessage `json:"metadata"`
	Attachments json.RawMessage `json:"attachments"`
	Time        span            `json:"time"`
}

func (s *toolState) ended() bool { return s.Status == "completed" || s.Status == "error" }

// childSession returns the session in which a task runs, once it is known.
func (s *toolState) childSession() string {
	var m struct {
		SessionID string `json:"sessionId"`
	}
	// Metadata is the tool's own; another shape is ignored.
	_ = json.Unmarshal(s.Metadata, &m)
	return m.SessionID
}

// exitCode returns that of a command that a shell tool ran; 0 if there is none.
func (s *toolState) exitCode() int {
	var m struct {
		Exit int `json:"exit"`
	}
	_ = json.Unmarshal(s.Metadata, &m)
	return m.Exit
}

// taskInput is the input of the tool that starts a subagent.
type taskInput struct {
	Description  string `json:"description"`
	Prompt       string `json:"prompt"`
	SubagentType string `json:"subagent_type"`
}

var errNoObject = errors.New("not a JSON object")

// decodeLine reads a line, which must be a JSON object. A field of an unexpected
// shape makes it an unknown line, with only its type.
func decodeLine(data []byte) (*line, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, errNoObject
	}
	l := new(line)
	err := json.Unmarshal(data, l)
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) {
		var only struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(data, &only) == nil && only.Type != "" && !known(only.Type) {
			return &line{Type: only.Type}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if len(l.Event) > 0 {
		return decodeLine(l.Event)
	}
	if l.Properties != nil && l.Properties.SessionID == "" {
		l.Properties.SessionID = l.Properties.subject()
	}
	return l, nil
}

// subject returns the session of an event of version 1.0, which names it in the
// part, message or session of the event.
func (p *properties) subject() string {
	switch {
	case p.Part != nil:
		return p.Part.SessionID
	case p.Info == nil:
		return ""
	case p.Info.SessionID == "": // the event is about a session
		return p.Info.ID
	}
	return p.Info.SessionID
}

// known reports whether events of a type are translated.
func known(eventType string) bool {
	return slices.Contains([]string{
		"message.part.delta", "message.part.updated", "message.updated", "session.created", "session.error",
		"session.status", "session.idle", "permission.asked", "permission.replied", "question.asked",
		"question.replied", "question.rejected", responseType,
	}, eventType)
}

// responseType is the type of the runner's record of a response.
const responseType = "sojourn.response"

// chatter are events that are not about the conversation: the server's setup, and
// what other events or the transcript have in a better form.
var chatter = map[string]bool{
	"server.connected": true, "server.heartbeat": true, "plugin.added": true, "catalog.updated": true,
	"integration.updated": true, "reference.updated": true, "session.updated": true, "session.diff": true,
	"session.compacted": true, "command.executed": true, "todo.updated": true, "lsp.updated": true,
	"lsp.client.diagnostics": true, "vcs.branch.updated": true, "project.updated": true,
	"installation.updated": true, "installation.update-available": true, "models-dev.refreshed": true,
	"integration.connection.updated": true, "file.watcher.updated": true, "file.edited": true,
	"mcp.tools.changed": true, "server.instance.disposed": true, "global.disposed": true,
	"project.directories.updated": true,
}

// isRequest reports whether a line is a request, and isRecorded whether it is one
// of a recording, which has its response too.
func (l *line) isRequest() bool  { return l.Method != "" && l.Path != "" && l.Type == "" }
func (l *line) isRecorded() bool { return l.RecMethod != "" && l.RecPath != "" && l.Type == "" }

// route splits a path into an operation and its session or request: "prompt",
// "ses_1".
func route(method, path string) (verb, subject string) {
	path, _, _ = strings.Cut(path, "#")
	path, _, _ = strings.Cut(path, "?")
	elements := strings.Split(strings.Trim(path, "/"), "/")
	if method != "POST" || len(elements) < 2 {
		return "", ""
	}
	last := elements[len(elements)-1]
	switch {
	case elements[0] == "api":
		if len(elements) == 2 && last == "session" {
			return "open", ""
		}
	case elements[0] == "session" && len(elements) == 3:
		return last, elements[1]
	case (elements[0] == "permission" || elements[0] == "question") && len(elements) == 3:
		return elements[0] + "." + last, elements[1]
	}
	return "", ""
}
