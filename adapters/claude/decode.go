package claude

import (
	"bytes"
	stdjson "encoding/json"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// Lines are read in one pass, whole: what is needed is decoded, everything else
// is skipped but still checked, so that a torn line is never taken for a valid
// one. encoding/json would read the same bytes three times.

// decode fills an empty line from one that must be a JSON object with a type. The line keeps references to data.
func (l *line) decode(data []byte) error {
	data, err := nativejson.Object(data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, l, nativejson.AsWritten); err != nil {
		return l.salvage(data, err)
	}
	if l.Type == "" {
		return nativejson.ErrNoType
	}
	l.raw = data
	l.locate()
	return nil
}

// locate finds the raw parts in the line.
func (l *line) locate() {
	if l.Message != nil {
		l.Message.Content.locate(l.raw)
	}
	l.Text.locate(l.raw)
	if l.Attachment != nil {
		l.Attachment.Prompt.locate(l.raw)
	}
	if l.Event != nil && l.Event.Message != nil {
		l.Event.Message.Content.locate(l.raw)
	}
}

// salvage keeps a line of an unknown type, although one of its fields differs
// from the field of that name in other lines.
func (l *line) salvage(data []byte, err error) error {
	if !stdjson.Valid(data) {
		return nativejson.Explain(err)
	}
	var head struct {
		Type    string `json:"type"`
		Subtype any    `json:"subtype"`
		Parent  any    `json:"parent_tool_use_id"`
	}
	if json.Unmarshal(data, &head, nativejson.AsWritten) != nil || head.Type == "" || slices.Contains(known, head.Type) {
		return nativejson.Explain(err)
	}
	*l = line{Type: head.Type, raw: data}
	l.Subtype, _ = head.Subtype.(string)
	l.Parent, _ = head.Parent.(string)
	return nil
}

// known are the types of line that are translated.
var known = []string{
	"assistant", "user", "system", "attachment", "queue-operation", "stream_event", "result",
	"control_request", "control_response", "control_cancel_request",
}

// content is the content of a message: a plain text, or parts.
type content struct {
	list []part
	// plain: it was a string.
	plain bool
	// raw is a part of the line's bytes, from from up to to.
	raw      stdjson.RawMessage
	from, to int64
}

// UnmarshalJSONFrom reads a string, a list of parts, or null.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = content{from: dec.InputOffset()}
	var err error
	switch dec.PeekKind() {
	case '"':
		var text string
		if err = json.UnmarshalDecode(dec, &text); err == nil {
			c.list, c.plain = []part{{Type: "text", Text: text}}, true
		}
	case '[':
		err = c.readParts(dec)
	default:
		// null, or what the decoder rejects as a list.
		err = json.UnmarshalDecode(dec, &c.list)
	}
	c.to = dec.InputOffset()
	return err
}

func (c *content) readParts(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		p := part{from: dec.InputOffset()}
		if err := json.UnmarshalDecode(dec, &p); err != nil {
			return err
		}
		p.to = dec.InputOffset()
		c.list = append(c.list, p)
	}
	_, err := dec.ReadToken()
	return err
}

// locate finds the raw parts in the text that the content was read from.
func (c *content) locate(data []byte) {
	if c.to == 0 {
		return // there was none
	}
	c.raw = cut(data, c.from, c.to)
	for i := range c.list {
		if p := &c.list[i]; p.to > 0 {
			p.raw = cut(data, p.from, p.to)
		}
	}
}

// cut returns the value between two positions, without what precedes it.
func cut(data []byte, from, to int64) []byte {
	return bytes.TrimLeft(data[from:to], ":, \t\r\n")
}

// text returns a content that is one plain text; "" for any other.
func (m *message) text() string {
	if m == nil || !m.Content.plain {
		return ""
	}
	return m.Content.list[0].Text
}

// parts returns a message's content as a list; a plain string is one text.
func (m *message) parts() []part {
	if m == nil {
		return nil
	}
	return m.Content.list
}

// given returns a message's content as it was written, in its own memory.
func (m *message) given() stdjson.RawMessage { return bytes.Clone(m.Content.raw) }

func decodeParts(raw stdjson.RawMessage) ([]part, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var c content
	if err := json.Unmarshal(raw, &c, nativejson.AsWritten); err != nil {
		return nil, nativejson.Explain(err)
	}
	c.locate(raw)
	return c.list, nil
}

// nativeResult is what the program has about a tool's result beside the text for
// the model; only what concerns a subagent is read.
type nativeResult struct {
	AgentID    ifString `json:"agentId"`
	DurationMS ifNumber `json:"totalDurationMs"`
}

// UnmarshalJSONFrom accepts any value.
func (r *nativeResult) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*r = nativeResult{}
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	type fields nativeResult
	return json.UnmarshalDecode(dec, (*fields)(r))
}

// ifString is a string, or "" for any other value.
type ifString string

// UnmarshalJSONFrom takes any value.
func (s *ifString) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if *s = ""; dec.PeekKind() != '"' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, (*string)(s))
}

// ifNumber is a number as it was written, or "" for any other value.
type ifNumber string

// UnmarshalJSONFrom takes any value.
func (n *ifNumber) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if *n = ""; dec.PeekKind() != '0' {
		return dec.SkipValue()
	}
	value, err := dec.ReadValue()
	*n = ifNumber(value)
	return err
}

// nativeResult returns that of a user line; empty if there is none.
func (l *line) nativeResult() nativeResult {
	switch {
	case l.ToolUseResult != nil:
		return *l.ToolUseResult
	case l.LiveToolUseResult != nil:
		return *l.LiveToolUseResult
	}
	return nativeResult{}
}

// kind returns a line's name for people: its type, and its subtype if it has one.
func (l *line) kind() string {
	if l.Subtype == "" {
		return l.Type
	}
	return l.Type + "/" + l.Subtype
}

// hasResult reports whether a user line has the result of a tool.
func (l *line) hasResult() bool {
	return slices.ContainsFunc(l.Message.parts(), func(p part) bool { return isToolResult(p.Type) })
}

// reports reports whether a turn was started by the program itself, about a
// background task.
func (l *line) reports() bool {
	var o struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(l.Origin, &o, nativejson.AsWritten) == nil && o.Kind == "task-notification"
}
