package claude

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// plainLine is a line as encoding/json reads it: the reference for ours.
type plainLine struct {
	line
	Message           *plainMessage   `json:"message"`
	ToolUseResult     json.RawMessage `json:"toolUseResult"`
	LiveToolUseResult json.RawMessage `json:"tool_use_result"`
	Text              json.RawMessage `json:"text"`
	Event             *struct {
		Type    string        `json:"type"`
		Index   int           `json:"index"`
		Message *plainMessage `json:"message"`
		Block   *part         `json:"content_block"`
		Delta   *struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"delta"`
		Usage *usage `json:"usage"`
	} `json:"event"`
	Attachment *struct {
		Type       string          `json:"type"`
		Prompt     json.RawMessage `json:"prompt"`
		SourceUUID string          `json:"source_uuid"`
		Mode       string          `json:"commandMode"`
	} `json:"attachment"`
}

type plainMessage struct {
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	Content    json.RawMessage `json:"content"`
	Usage      *usage          `json:"usage"`
	StopReason *string         `json:"stop_reason"`
}

// read returns what encoding/json makes of a line; fine is false for a malformed
// line.
func (p *plainLine) read(data []byte) (fine bool) {
	if json.Unmarshal(data, p) != nil || p.Type == "" || !plainParts(p.Text, &p.line.Text) {
		return false
	}
	if p.Message != nil {
		p.line.Message = &message{ID: p.Message.ID, Model: p.Message.Model, Usage: p.Message.Usage, StopReason: p.Message.StopReason}
		fine = plainParts(p.Message.Content, &p.line.Message.Content)
		if !fine {
			return false
		}
	}
	if e := p.Event; e != nil {
		p.line.Event = &streamEvent{Type: e.Type, Index: e.Index, Block: e.Block, Delta: e.Delta, Usage: e.Usage}
		if e.Message != nil {
			p.line.Event.Message = &message{ID: e.Message.ID, Model: e.Message.Model, Usage: e.Message.Usage, StopReason: e.Message.StopReason}
			if !plainParts(e.Message.Content, &p.line.Event.Message.Content) {
				return false
			}
		}
	}
	if a := p.Attachment; a != nil {
		p.line.Attachment = &attachment{Type: a.Type, SourceUUID: a.SourceUUID, CommandMode: a.Mode}
		if !plainParts(a.Prompt, &p.line.Attachment.Prompt) {
			return false
		}
	}
	p.line.ToolUseResult, p.line.LiveToolUseResult = plainResult(p.ToolUseResult), plainResult(p.LiveToolUseResult)
	p.line.raw = bytes.TrimSpace(data)
	return true
}

func plainParts(raw json.RawMessage, c *content) bool {
	if len(raw) == 0 {
		return true
	}
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &list) == nil:
		for _, r := range list {
			p := part{raw: bytes.TrimSpace(r)}
			if json.Unmarshal(r, &p) != nil {
				return false
			}
			c.list = append(c.list, p)
		}
	case json.Unmarshal(raw, &text) == nil:
		c.list, c.plain = []part{{Type: "text", Text: text}}, true
	default:
		return false
	}
	c.raw = raw
	return true
}

func plainResult(raw json.RawMessage) *nativeResult {
	var fields map[string]json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &fields) != nil:
		return &nativeResult{}
	}
	r := &nativeResult{AgentID: ifString(nativejson.String(fields["agentId"]))}
	if json.Valid(fields["totalDurationMs"]) && strings.ContainsAny(string(fields["totalDurationMs"][:1]), "-0123456789") {
		r.DurationMS = ifNumber(fields["totalDurationMs"])
	}
	return r
}

// withoutPlaces drops the positions.
func withoutPlaces(l line) line {
	drop := func(c *content) {
		c.from, c.to = 0, 0
		for i := range c.list {
			c.list[i].from, c.list[i].to = 0, 0
		}
	}
	drop(&l.Text)
	if l.Message != nil {
		drop(&l.Message.Content)
	}
	if l.Event != nil && l.Event.Message != nil {
		drop(&l.Event.Message.Content)
	}
	if l.Attachment != nil {
		drop(&l.Attachment.Prompt)
	}
	return l
}

// strangeNames reports whether a line has names that encoding/json takes for ours
// though they are not, or the same name twice on something with parts: it then
// mixes the two, which no caller should rely on.
func strangeNames(data []byte) bool {
	names := fieldNames(reflect.TypeFor[plainLine](), map[string]bool{})
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type object struct {
		names  map[string]int
		inName bool
	}
	var stack []*object
	for {
		tok, err := dec.Token()
		if err != nil {
			return err != io.EOF
		}
		var top *object
		if len(stack) > 0 {
			top = stack[len(stack)-1]
		}
		if delim, ok := tok.(json.Delim); ok && (delim == '}' || delim == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top != nil && top.names != nil {
			if top.inName = !top.inName; top.inName {
				if top.names[tok.(string)]++; strange(names, tok.(string), top.names[tok.(string)]) {
					return true
				}
				continue
			}
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, &object{names: map[string]int{}})
		case json.Delim('['):
			stack = append(stack, &object{})
		}
	}
}

// strange reports whether an object's name, seen so often, is one that the two
// readers treat differently.
func strange(names map[string]bool, name string, times int) bool {
	return times > 1 && !scalar(name) || !names[name] && folds(names, name)
}

func scalar(name string) bool {
	return strings.Contains(" type subtype uuid parent_tool_use_id id model name thinking tool_use_id is_error isMeta promptSource ", " "+name+" ")
}

func folds(names map[string]bool, name string) bool {
	for known := range names {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}

func fieldNames(t reflect.Type, into map[string]bool) map[string]bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if name := t.Field(i).Tag.Get("json"); name != "" {
				into[name] = true
				fieldNames(t.Field(i).Type, into)
			} else if t.Field(i).Anonymous || name == "" && t.Field(i).Name == "list" {
				fieldNames(t.Field(i).Type, into)
			}
		}
	}
	return into
}

// decodeLine reads a line, which must be a JSON object with a type.
func decodeLine(data []byte) (*line, error) {
	l := new(line)
	if err := l.decode(data); err != nil {
		return nil, err
	}
	return l, nil
}

// agreesWithEncodingJSON compares a line with encoding/json's result.
func agreesWithEncodingJSON(t *testing.T, data []byte) {
	t.Helper()
	l, err := decodeLine(data)
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || trimmed[0] != '{' || !utf8.Valid(data) || !json.Valid(data) {
		require.Error(t, err, "%q is no good line", data)
		return
	}
	if strangeNames(data) {
		return
	}
	var want plainLine
	if !want.read(data) {
		require.True(t, err != nil || l.kind() != "" && l.Message == nil, "%q is malformed", data)
		return
	}
	require.NoError(t, err, "%q", data)
	require.Equal(t, withoutPlaces(want.line), withoutPlaces(*l), "%q", data)
}

// hardLines are what a fast decoder gets wrong first.
var hardLines = []string{
	`{"type":"user","uuid":"u\u0031","message":{"content":"a\"b\\c\/d\b\f\n\r\t\u00e9\ud83d\ude00"}}`,
	`{"type":"user","message":{"content":"half \ud83d of a pair, \ude00 the other, \ud83d\ud83d\ude00 both"}}`,
	`{"ty\u0070e":"user","message":{"content":[{"type":"text","text":""},{"type":"image","source":{"type":"base64","data":"AA=="}}]}}`,
	`{"type":"a","type":"user","uuid":"1","uuid":"2","uuid":null}`,
	` { "type" : "user" , "message" : { "content" : [ { "type" : "text" , "text" : "x" } , { } ] } } `,
	"\f{\"type\":\"0\"}",
	`{"type":"user","message":null,"attachment":null,"event":null,"toolUseResult":null,"timestamp":null}`,
	`{"type":"user","message":{"content":null}}`, `{"type":"user","message":{"content":[]}}`,
	`{"type":"user","message":{"content":7}}`, `{"type":"user","message":{"content":[7]}}`, `{"type":"user","message":{"content":[null]}}`,
	`{"type":"user","message":{"content":{}}}`, `{"type":"user","message":[]}`, `{"type":7}`, `{"type":""}`, `{}`, `[]`, `null`, `"x"`, ``,
	`{"type":"user","toolUseResult":"rejected"}`, `{"type":"user","toolUseResult":{"agentId":7,"totalDurationMs":"x"}}`,
	`{"type":"user","toolUseResult":{"agentId":"a","totalDurationMs":1.5e3},"tool_use_result":[{"agentId":"b"}]}`,
	`{"type":"user","timestamp":"2026-11-21T00:05:22.827Z"}`, `{"type":"user","timestamp":"2026-11-21T00:05:22.827123456+05:30"}`,
	`{"type":"user","timestamp":""}`, `{"type":"user","timestamp":"yesterday"}`, `{"type":"user","timestamp":5}`,
	`{"type":"system","attempt":1.5}`, `{"type":"system","attempt":1e2}`, `{"type":"system","attempt":99999999999999999999}`, `{"type":"system","retry_delay_ms":1e999}`,
	`{"type":"system","x":01}`, `{"type":"system","x":-}`, `{"type":"system","x":1.}`, `{"type":"system","x":tru}`, `{"type":"system","x":"\x"}`,
	"{\"type\":\"system\",\"x\":\"\t\"}", "{\"type\":\"system\",\"x\":\"\xff\"}", "{\"type\":\"system\"}\x00", `{"type":"system"} {}`, `{"type":"system",}`,
	`{"type":"dream","message":"of sheep","status":{"deep":1}}`, `{"type":"dream","subtype":7}`, `{"type":"progress","message":"x"}`,
	`{"type":"user","message":{"content":"torn`, `{"type":"user","message":{"content":[{"type":"text"`,
	`{"type":"attachment","attachment":{"type":"queued_command","prompt":"plain","source_uuid":"s"}}`,
	`{"type":"stream_event","event":{"type":"message_start","index":3,"message":{"id":"m","content":[]}}}`,
	`{"type":"system","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	`{"type":"system","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
}

func TestDecodeHardLines(t *testing.T) {
	t.Parallel()
	for _, l := range hardLines {
		agreesWithEncodingJSON(t, []byte(l))
	}
}

// Every recorded line, and every recorded line cut anywhere.
func TestDecodeRecordedLines(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		for l := range strings.Lines(tr.bytes) {
			agreesWithEncodingJSON(t, []byte(l))
			l = strings.TrimSpace(l)
			for at := 1; at < len(l); at += 1 + len(l)/25 {
				_, err := decodeLine([]byte(l[:at]))
				require.Error(t, err, "%s", l[:at])
			}
		}
	}
}

func FuzzDecodeLine(f *testing.F) {
	for _, l := range hardLines {
		if len(l) < 4000 {
			f.Add([]byte(l))
		}
	}
	f.Fuzz(agreesWithEncodingJSON)
}

// Another encoding is not guessed.
func TestParseOtherEncodings(t *testing.T) {
	t.Parallel()
	good := `{"type":"user","uuid":"u1","message":{"content":"one"}}` + "\n"
	latin1 := "{\"type\":\"user\",\"uuid\":\"u2\",\"message\":{\"content\":\"caf\xe9\"}}\n"
	utf16 := "\xff\xfe{\x00\"\x00t\x00"
	var faults []string
	blocks := 0
	for e, err := range New().Parse([]adapters.Source{memory(event.Main, good+latin1+utf16+"\n")}) {
		if err != nil {
			faults = append(faults, err.Error())
		} else if _, ok := e.Payload.(event.BlockUpsert); ok {
			blocks++
		}
	}
	require.Equal(t, []string{
		"claude: transcript main.jsonl: line 2: not UTF-8",
		"claude: transcript main.jsonl: line 3: not a JSON object",
	}, faults)
	require.Equal(t, 1, blocks)
}

// The memory in which lines are read is reused; no event may refer to it.
func TestParseKeepsNothingOfTheReader(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		var early []string
		var late []event.Event
		for e, err := range New().Parse(tr.Sources) {
			require.NoError(t, err)
			early = append(early, toJSON(t, e))
			late = append(late, e)
		}
		for i, e := range late {
			require.Equal(t, early[i], toJSON(t, e), tr.Name)
		}
	}
	long := strings.Repeat("x", 3*(1<<16))
	var texts strings.Builder
	for e, err := range New().Parse([]adapters.Source{memory(event.Main,
		`{"type":"user","uuid":"u1","message":{"content":"`+long+`"}}`+"\n"+
			`{"type":"dream","x":"`+strings.Repeat("y", 2*(1<<16))+`"}`+"\n"+
			`{"type":"user","uuid":"u2","message":{"content":"`+strings.Repeat("z", 2*(1<<16))+`"}}`)}) {
		require.NoError(t, err)
		texts.WriteString(toJSON(t, e))
	}
	require.Contains(t, texts.String(), long)
	require.Contains(t, texts.String(), strings.Repeat("y", 2*(1<<16)))
}
