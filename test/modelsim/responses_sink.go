package modelsim

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// responsesStream streams an answer as items of a response.
type responsesStream struct {
	stream
	asked
	id       string
	sequence int
	kind     blockKind
	// The item under way: its id and what it said.
	item string
	text strings.Builder
	// items are those that are done, as JSON.
	items []string
}

var _ response = (*responsesStream)(nil)

func newResponsesStream(w http.ResponseWriter, a asked) *responsesStream {
	return &responsesStream{stream: newStream(w), asked: a, id: newID("resp_")}
}

// send writes one event; fields are the pieces of the JSON after its type.
// They are not joined, as an answer of 64 MB is in four of its events.
func (s *responsesStream) send(name string, fields ...string) error {
	head := "event: " + name + "\ndata: {\"type\":\"" + name + `","sequence_number":` + strconv.Itoa(s.sequence)
	s.sequence++
	for _, piece := range slices.Concat([]string{head}, fields, []string{"}\n\n"}) {
		if _, err := s.buf.WriteString(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *responsesStream) start() error {
	if !s.begin() {
		return nil
	}
	for _, name := range []string{"response.created", "response.in_progress"} {
		if err := s.send(name, s.whole("in_progress", "")...); err != nil {
			return err
		}
	}
	return nil
}

// whole is the response up to now, as the field of an event.
func (s *responsesStream) whole(status, more string) []string {
	return slices.Concat([]string{`,"response":`}, s.snapshot(status, more))
}

// snapshot is the response up to now, in pieces.
func (s *responsesStream) snapshot(status, more string) []string {
	pieces := []string{fmt.Sprintf(`{"id":%q,"object":"response","created_at":%d,"status":%q,"model":%s,"output":[`,
		s.id, time.Now().Unix(), status, quoted(s.model))}
	for i, item := range s.items {
		if i > 0 {
			pieces = append(pieces, ",")
		}
		pieces = append(pieces, item)
	}
	return append(pieces, "]", more, "}")
}

// at is the place of an event.
func (s *responsesStream) at(field string) string {
	return `,"item_id":"` + s.item + `","output_index":` + strconv.Itoa(len(s.items)) + `,"` + field + `":0`
}

func (s *responsesStream) open(kind blockKind) error {
	if err := s.start(); err != nil {
		return err
	}
	s.kind = kind
	s.text.Reset()
	s.item = newID("msg_")
	part, field, piece := "response.content_part.added", "content_index", textItem(`""`)
	if kind == blockThink {
		s.item = newID("rs_")
		part, field, piece = "response.reasoning_summary_part.added", "summary_index", summaryItem(`""`)
	}
	if err := s.send("response.output_item.added", s.index()+`,"item":`+s.message()); err != nil {
		return err
	}
	return s.send(part, s.at(field)+`,"part":`+piece)
}

func (s *responsesStream) index() string { return `,"output_index":` + strconv.Itoa(len(s.items)) }

// textItem and summaryItem are the parts of items; text is JSON.
func textItem(text string) string {
	return `{"type":"output_text","text":` + text + `,"annotations":[]}`
}

func summaryItem(text string) string { return `{"type":"summary_text","text":` + text + `}` }

// message is the item that begins.
func (s *responsesStream) message() string {
	if s.kind == blockThink {
		return reasoningItem(s.item, "")
	}
	return messageItem(s.item, "")
}

// reasoningItem is an item of thinking, which is done when it has a summary.
func reasoningItem(id, summary string) string {
	proof := "null"
	if summary != "" {
		proof = strconv.Quote(thinkSignature)
	}
	return `{"type":"reasoning","id":"` + id + `","summary":[` + summary + `],"encrypted_content":` + proof + `}`
}

// messageItem is an item of text, which is done when it has content.
func messageItem(id, content string) string {
	status := "in_progress"
	if content != "" {
		status = "completed"
	}
	return `{"type":"message","id":"` + id + `","status":"` + status + `","role":"assistant","content":[` + content + `]}`
}

// delta is called without end by benchmarks.
func (s *responsesStream) delta(text string) error {
	s.text.WriteString(text)
	name, field := "response.output_text.delta", "content_index"
	if s.kind == blockThink {
		name, field = "response.reasoning_summary_text.delta", "summary_index"
	}
	b := s.buf.AvailableBuffer()
	b = append(b, "event: "...)
	b = append(b, name...)
	b = append(b, "\ndata: {\"type\":\""...)
	b = append(b, name...)
	b = append(b, `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(s.sequence), 10)
	b = append(b, `,"item_id":"`...)
	b = append(b, s.item...)
	b = append(b, `","output_index":`...)
	b = strconv.AppendInt(b, int64(len(s.items)), 10)
	b = append(b, `,"`...)
	b = append(b, field...)
	b = append(b, `":0,"delta":`...)
	b = appendQuoted(b, text)
	b = append(b, "}\n\n"...)
	s.sequence++
	_, err := s.buf.Write(b)
	return err
}

func (s *responsesStream) shut() error {
	text := string(quoted(s.text.String()))
	s.text.Reset()
	name, part, field, piece := "response.output_text.done", "response.content_part.done", "content_index", textItem(text)
	item := messageItem(s.item, piece)
	if s.kind == blockThink {
		name, part, field, piece = "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
			"summary_index", summaryItem(text)
		item = reasoningItem(s.item, piece)
	}
	if err := s.send(name, s.at(field), `,"text":`, text); err != nil {
		return err
	}
	if err := s.send(part, s.at(field), `,"part":`, piece); err != nil {
		return err
	}
	return s.done(item)
}

func (s *responsesStream) done(item string) error {
	if err := s.send("response.output_item.done", s.index(), `,"item":`, item); err != nil {
		return err
	}
	s.items = append(s.items, item)
	return s.flush()
}

func (s *responsesStream) call(c Call) error {
	if err := s.start(); err != nil {
		return err
	}
	f := newFunctionCall(c, s.Tools)
	if err := s.send("response.output_item.added", s.index()+`,"item":`+f.item("in_progress", "")); err != nil {
		return err
	}
	event, field := f.wire()
	at := `,"item_id":"` + f.id + `"` + s.index()
	for _, half := range halves([]byte(f.input)) {
		if err := s.send(event+".delta", at+`,"delta":`+string(quoted(half))); err != nil {
			return err
		}
	}
	if err := s.send(event+".done", at+`,"`+field+`":`+string(quoted(f.input))); err != nil {
		return err
	}
	return s.done(f.item("completed", f.input))
}

// functionCall is a call as an item: of a function with arguments, or of a tool
// that takes text.
type functionCall struct {
	id, callID, namespace, name, input string
	custom                             bool
}

func newFunctionCall(c Call, tools []string) functionCall {
	if source, ok := script(c.alone(), tools); ok {
		f := functionCall{id: newID("ctc_"), callID: newID("call_"), input: source, custom: true}
		f.namespace, f.name = splitName(codeTool, tools)
		return f
	}
	name, input := nativeCall(c, tools, responsesDialect())
	f := functionCall{id: newID("fc_"), callID: newID("call_"), input: string(input)}
	f.namespace, f.name = splitName(name, tools)
	return f
}

// wire is how events name the input.
func (f functionCall) wire() (event, field string) {
	if f.custom {
		return "response.custom_tool_call_input", "input"
	}
	return "response.function_call_arguments", "arguments"
}

// splitName splits the full name of a tool. A script may also name it as it is
// called elsewhere: without its namespace, or joined to it by "__".
func splitName(name string, tools []string) (namespace, base string) {
	for _, full := range tools {
		space, base, found := strings.Cut(full, ".")
		if found && slices.Contains([]string{full, base, space + "__" + base}, name) {
			return space, base
		}
	}
	return "", name
}

func (f functionCall) item(status, input string) string {
	space := ""
	if f.namespace != "" {
		space = `"namespace":` + string(quoted(f.namespace)) + `,`
	}
	kind := "function_call"
	if f.custom {
		kind = "custom_tool_call"
	}
	_, field := f.wire()
	return fmt.Sprintf(`{"type":%q,"id":%q,"call_id":%q,"name":%s,%s"%s":%s,"status":%q}`,
		kind, f.id, f.callID, quoted(f.name), space, field, quoted(input), status)
}

// fail sends a status if none was sent, else a failed response.
func (s *responsesStream) fail(status int, message string) error {
	if !s.started {
		return writeOpenAIError(s.w, status, message)
	}
	e := newOpenAIError(status, message)
	code := e.Type
	if e.Code != nil {
		code = *e.Code
	}
	more := `,"error":` + string(object("code", code, "message", message))
	if err := s.send("response.failed", s.whole("failed", more)...); err != nil {
		return err
	}
	return s.flush()
}

func (s *responsesStream) finish() error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.send("response.completed", s.whole("completed", responsesUsage())...); err != nil {
		return err
	}
	return s.flush()
}

func responsesUsage() string {
	return fmt.Sprintf(`,"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`, inputTokens, outputTokens, inputTokens+outputTokens)
}

// newWholeResponse answers with one response.
func newWholeResponse(w http.ResponseWriter, a asked) *whole {
	return &whole{
		refuse: func(status int, message string) error { return writeOpenAIError(w, status, message) },
		write: func(blocks []block) error {
			s := newResponsesStream(w, a)
			for _, b := range blocks {
				s.items = append(s.items, responsesItemOf(b, a.Tools))
			}
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, strings.Join(s.snapshot("completed", responsesUsage()), ""))
			return err
		},
	}
}

func responsesItemOf(b block, tools []string) string {
	switch {
	case b.call != nil:
		f := newFunctionCall(*b.call, tools)
		return f.item("completed", f.input)
	case b.kind == blockThink:
		return reasoningItem(newID("rs_"), summaryItem(string(quoted(b.text))))
	}
	return messageItem(newID("msg_"), textItem(string(quoted(b.text))))
}
