package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// record is one line of a chat file: a header, a message, or a patch.
type record struct {
	SessionID   string `json:"sessionId"`
	ProjectHash string `json:"projectHash"`
	StartTime   string `json:"startTime"`
	Kind        string `json:"kind"`
	// Messages are those of a file in one piece, as older versions wrote it.
	Messages []json.RawMessage `json:"messages"`

	ID        string          `json:"id"`
	Timestamp string          `json:"timestamp"`
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	// Display is what the user wrote, if the model was given something else.
	Display   json.RawMessage   `json:"displayContent"`
	Thoughts  []thought         `json:"thoughts"`
	ToolCalls []json.RawMessage `json:"toolCalls"`
	// Tokens are what the message's model call took.
	Tokens *tokens `json:"tokens"`

	Set    json.RawMessage `json:"$set"`
	Rewind string          `json:"$rewindTo"`

	raw json.RawMessage
}

// tokens are counted as those of a turn, which are on the stream.
type tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// bill is what the model calls took whose output is not emitted yet.
type bill struct{ event.Usage }

func (b *bill) add(t *tokens) {
	if t != nil {
		b.Usage = b.Add(event.Usage{InputTokens: t.Input, OutputTokens: t.Output})
	}
}

// take returns what the calls took whose output begins with the next block; nil for nothing new.
func (b *bill) take() *event.Usage {
	took := b.Usage
	b.Usage = event.Usage{}
	if took == (event.Usage{}) {
		return nil
	}
	return &took
}

type thought struct {
	Subject     string `json:"subject"`
	Description string `json:"description"`
}

// toolCall is a call that has ended.
type toolCall struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Args          json.RawMessage `json:"args"`
	Result        json.RawMessage `json:"result"`
	Status        string          `json:"status"`
	Timestamp     string          `json:"timestamp"`
	AgentID       string          `json:"agentId"`
	ResultDisplay json.RawMessage `json:"resultDisplay"`
	Description   string          `json:"description"`
}

func (c *toolCall) failed() bool { return c.Status != "success" }

// display returns what the agent shows of the result, if that is a text.
func (c *toolCall) display() string { return nativejson.String(c.ResultDisplay) }

// piece is one part of a message's content.
type piece struct {
	Text             string `json:"text"`
	Thought          bool   `json:"thought"`
	FunctionResponse *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
	InlineData *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
	FileData *struct {
		MimeType string `json:"mimeType"`
		URI      string `json:"fileUri"`
	} `json:"fileData"`
}

// decodeRecord reads a line, which must be a JSON object that a chat file can
// have.
func decodeRecord(data []byte) (*record, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("not a JSON object")
	}
	r := new(record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	r.raw = data
	return r, nil
}

// isPatch recognizes a patch without decoding it: most lines of a file are
// patches, and some repeat the whole conversation.
func isPatch(data []byte) bool { return bytes.HasPrefix(data, []byte(`{"$set":`)) }

func (r *record) isHeader() bool { return r.ID == "" && r.SessionID != "" && r.ProjectHash != "" }

// pieces returns a message's content as a list; a plain string is one text.
func (r *record) pieces() ([]piece, error) { return decodePieces(r.Content) }

// written returns what the user wrote.
func (r *record) written() ([]piece, error) {
	if shown, err := decodePieces(r.Display); err == nil && len(shown) > 0 {
		return shown, nil
	}
	return r.pieces()
}

func decodePieces(content json.RawMessage) ([]piece, error) {
	raw := bytes.TrimSpace(content)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return []piece{{Text: text}}, err
	case raw[0] == '{':
		var one piece
		err := json.Unmarshal(raw, &one)
		return []piece{one}, err
	}
	var out []piece
	err := json.Unmarshal(raw, &out)
	return out, err
}

// said returns the text of a message of the model, as the agent stores it.
func said(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if !p.Thought {
			b.WriteString(p.Text)
		}
	}
	return tidied(b.String())
}

// prompt returns the content of a user's message, as it was sent.
func prompt(pieces []piece) []acp.Content {
	var out []acp.Content
	for _, p := range pieces {
		switch {
		case p.InlineData != nil:
			kind, _, _ := strings.Cut(p.InlineData.MimeType, "/")
			out = append(out, acp.Content{Type: kind, MimeType: p.InlineData.MimeType, Data: p.InlineData.Data})
		case p.FileData != nil:
			out = append(out, acp.Content{Type: "resource_link", MimeType: p.FileData.MimeType, URI: p.FileData.URI})
		case p.FunctionResponse == nil:
			out = append(out, acp.Content{Type: "text", Text: p.Text})
		}
	}
	return out
}

const (
	contextTag = "<session_context>"
	hookTag    = "<hook_context>"
)

// isContext recognizes the agent's own first message, also in a copy of it, which has
// another id. A user may write the tag too, so it takes what the agent writes after
// it.
func isContext(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), contextTag+"\nThis is the Gemini CLI. We are setting up the context for our chat.")
}

// internal recognizes what the agent sends its model in the user's name, in a message
// of its own.
func internal(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || isContext(text) || strings.HasPrefix(text, "System: Potential loop detected. Details: ")
}

// forgotten recognizes a message of the user's that the agent does not load again.
func forgotten(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || slices.ContainsFunc([]string{"/", "?", contextTag, hookTag}, func(head string) bool { return strings.HasPrefix(text, head) })
}

// liveOutput returns the result of a call as the protocol reports it.
func liveOutput(c *toolCall) json.RawMessage {
	if text := c.display(); text != "" {
		return nativejson.Encode(text)
	}
	var d struct {
		FileName *string `json:"fileName"`
		FilePath string  `json:"filePath"`
		Original string  `json:"originalContent"`
		New      string  `json:"newContent"`
	}
	if json.Unmarshal(c.ResultDisplay, &d) != nil || d.FileName == nil {
		return json.RawMessage("null")
	}
	path := d.FilePath
	if path == "" {
		path = *d.FileName
	}
	return acp.OutputOf([]acp.Output{{Type: "diff", Path: path, OldText: d.Original, NewText: d.New}})
}

// parseTime parses a stamp; the zero time if it is invalid.
func parseTime(stamp string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}
	}
	return t
}

// errorText returns the error in a function's response; "" if there is none.
func errorText(response json.RawMessage) string { return stringField(response, "error") }
