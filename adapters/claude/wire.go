package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// line is one native line: what the program prints, what is written to it, and
// what it keeps in its transcripts. The three share most of their fields.
type line struct {
	Type      string    `json:"type"`
	Subtype   string    `json:"subtype"`
	UUID      string    `json:"uuid"`
	Parent    string    `json:"parent_tool_use_id"`
	Timestamp time.Time `json:"timestamp"`
	Message   *message  `json:"message"`

	// Marks of a user or assistant line.
	IsReplay         bool            `json:"isReplay"`
	IsSynthetic      bool            `json:"isSynthetic"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	IsAPIError       bool            `json:"isApiErrorMessage"`
	Error            json.RawMessage `json:"error"`
	// The native result of a tool, as transcripts name it and as the stream does.
	ToolUseResult     json.RawMessage `json:"toolUseResult"`
	LiveToolUseResult json.RawMessage `json:"tool_use_result"`
	// PromptSource and Origin tell in a transcript who wrote a user line: with
	// a source and no origin, somebody asked. A result has the origin of its
	// turn.
	PromptSource string          `json:"promptSource"`
	Origin       json.RawMessage `json:"origin"`
	// asked: the line is a prompt, whatever its text looks like.
	asked bool

	Event *streamEvent `json:"event"`

	// Control protocol.
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  json.RawMessage `json:"response"`

	// system lines.
	State          string          `json:"state"`
	Status         string          `json:"status"`
	PermissionMode string          `json:"permissionMode"`
	Model          string          `json:"model"`
	TaskID         string          `json:"task_id"`
	ToolUseID      string          `json:"tool_use_id"`
	TaskType       string          `json:"task_type"`
	Patch          json.RawMessage `json:"patch"`
	Description    string          `json:"description"`
	Attempt        int             `json:"attempt"`
	MaxRetries     int             `json:"max_retries"`
	RetryDelayMS   float64         `json:"retry_delay_ms"`
	ErrorStatus    *int            `json:"error_status"`
	Content        json.RawMessage `json:"content"`

	CompactMetadata *struct {
		Preserved struct {
			AllUUIDs []string `json:"all_uuids"`
		} `json:"preserved_messages"`
	} `json:"compact_metadata"`

	// result lines.
	IsError        bool     `json:"is_error"`
	APIErrorStatus *int     `json:"api_error_status"`
	Result         string   `json:"result"`
	StopReason     string   `json:"stop_reason"`
	TerminalReason string   `json:"terminal_reason"`
	TotalCostUSD   *float64 `json:"total_cost_usd"`
	Usage          *usage   `json:"usage"`
	Errors         []string `json:"errors"`

	// Text is that of a prompt from the command line, a JSON string.
	Text json.RawMessage `json:"text"`

	// Transcript only.
	Attachment *attachment `json:"attachment"`

	raw json.RawMessage
}

// message is the model API's message inside a line.
type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
}

// part is one element of a message's content.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *imageSource    `json:"source"`

	raw json.RawMessage
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// streamEvent is the model API's server-sent event.
type streamEvent struct {
	Type    string   `json:"type"`
	Index   int      `json:"index"`
	Message *message `json:"message"`
	Block   *part    `json:"content_block"`
	Delta   *struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"delta"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// attachment is what a transcript keeps beside messages; only messages that
// were handed over during a turn matter to a conversation.
type attachment struct {
	Type       string          `json:"type"`
	Prompt     json.RawMessage `json:"prompt"`
	SourceUUID string          `json:"source_uuid"`
}

// control is the body of a control_request.
type control struct {
	Subtype     string          `json:"subtype"`
	ToolName    string          `json:"tool_name"`
	DisplayName string          `json:"display_name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	ToolUseID   string          `json:"tool_use_id"`
	Model       string          `json:"model"`
}

// controlAnswer is the body of a control_response.
type controlAnswer struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Error     string          `json:"error"`
	Response  json.RawMessage `json:"response"`
}

// decision is the answer to can_use_tool.
type decision struct {
	Behavior  string `json:"behavior"`
	Message   string `json:"message"`
	Interrupt bool   `json:"interrupt"`
}

// decodeLine reads a line, which must be a JSON object with a type.
func decodeLine(data []byte) (*line, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("not a JSON object")
	}
	l := new(line)
	if err := json.Unmarshal(data, l); err != nil {
		return nil, err
	}
	if l.Type == "" {
		return nil, fmt.Errorf("field \"type\" is missing")
	}
	l.raw = data
	return l, nil
}

// kind names a line for people: its type, and its subtype if it has one.
func (l *line) kind() string {
	if l.Subtype == "" {
		return l.Type
	}
	return l.Type + "/" + l.Subtype
}

// nativeResult is what the program says of a tool's result beside the text for
// the model; nil without it.
func (l *line) nativeResult() json.RawMessage {
	if len(l.ToolUseResult) > 0 {
		return l.ToolUseResult
	}
	return l.LiveToolUseResult
}

// parts gives a message's content as a list; a plain string is one text.
func (m *message) parts() ([]part, error) {
	if m == nil {
		return nil, nil
	}
	return decodeParts(m.Content)
}

func decodeParts(raw json.RawMessage) ([]part, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return []part{{Type: "text", Text: text}}, nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(raw, &raws); err != nil {
		return nil, err
	}
	parts := make([]part, len(raws))
	for i, r := range raws {
		if err := json.Unmarshal(r, &parts[i]); err != nil {
			return nil, err
		}
		parts[i].raw = r
	}
	return parts, nil
}

// rawText is s as a JSON string; encoding a string can't fail.
func rawText(s string) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// plainString reads a JSON string; anything else gives "".
func plainString(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// hasResult says whether a user line holds the result of a tool.
func (l *line) hasResult() bool {
	parts, err := l.Message.parts()
	return err == nil && slices.ContainsFunc(parts, func(p part) bool { return isToolResult(p.Type) })
}

// reports says whether a turn was the program's own, about a background task.
func (l *line) reports() bool {
	var o struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(l.Origin, &o) == nil && o.Kind == "task-notification"
}
