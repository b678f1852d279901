package modelsim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// The usage of every answer, so that sums are easy to check.
const (
	inputTokens  = 100
	outputTokens = 20
)

// thinkSignature stands for the proof that a real server puts under thinking.
const thinkSignature = "RmFrZVNpZ25hdHVyZQ=="

// eventSink streams an answer as server-sent events.
type eventSink struct {
	w       http.ResponseWriter
	buf     *bufio.Writer
	model   string
	tools   []string
	started bool
	index   int
	kind    blockKind
	called  bool
}

var _ sink = (*eventSink)(nil)

func newEventSink(w http.ResponseWriter, model string, tools []string) *eventSink {
	return &eventSink{w: w, buf: bufio.NewWriterSize(w, 32<<10), model: model, tools: tools}
}

// start sends the head of the response, as late as possible: a scripted error
// before it can still choose the status.
func (s *eventSink) start() error {
	if s.started {
		return nil
	}
	s.started = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", newID("req_"))
	return s.event("message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":%q,"type":"message",`+
		`"role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,`+
		`"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`,
		newID("msg_"), quoted(s.model), inputTokens))
}

func (s *eventSink) event(name, data string) error {
	_, err := s.buf.WriteString("event: " + name + "\ndata: " + data + "\n\n")
	return err
}

func (s *eventSink) open(kind blockKind) error {
	if err := s.start(); err != nil {
		return err
	}
	s.kind = kind
	block := `{"type":"text","text":""}`
	if kind == blockThink {
		block = `{"type":"thinking","thinking":"","signature":""}`
	}
	return s.event("content_block_start",
		fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, s.index, block))
}

// delta is the one method that a benchmark calls a hundred thousand times:
// it allocates nothing for plain text.
func (s *eventSink) delta(text string) error {
	b := s.buf.AvailableBuffer()
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(s.index), 10)
	if s.kind == blockThink {
		b = append(b, `,"delta":{"type":"thinking_delta","thinking":`...)
	} else {
		b = append(b, `,"delta":{"type":"text_delta","text":`...)
	}
	b = appendQuoted(b, text)
	b = append(b, "}}\n\n"...)
	_, err := s.buf.Write(b)
	return err
}

func appendQuoted(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return append(b, quoted(text)...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func (s *eventSink) shut() error {
	if s.kind == blockThink {
		err := s.event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,`+
			`"delta":{"type":"signature_delta","signature":%q}}`, s.index, thinkSignature))
		if err != nil {
			return err
		}
	}
	err := s.event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, s.index))
	s.index++
	if err != nil {
		return err
	}
	return s.flush()
}

// call streams the input in two halves, cut anywhere, as a model does.
func (s *eventSink) call(c Call) error {
	if err := s.start(); err != nil {
		return err
	}
	s.called, s.kind = true, ""
	name, input := nativeCall(c, s.tools)
	err := s.event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":`+
		`{"type":"tool_use","id":%q,"name":%s,"input":{}}}`, s.index, newID("toolu_"), quoted(name)))
	if err != nil {
		return err
	}
	runes := []rune(string(input))
	for _, half := range []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])} {
		err := s.event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":`+
			`{"type":"input_json_delta","partial_json":%s}}`, s.index, quoted(half)))
		if err != nil {
			return err
		}
	}
	return s.shut()
}

// fail gives a status if none was sent, else an error event in the stream.
func (s *eventSink) fail(status int, message string) error {
	if !s.started {
		return writeAPIError(s.w, status, message)
	}
	data, err := json.Marshal(newAPIError(status, message))
	if err != nil {
		return err
	}
	if err := s.event("error", string(data)); err != nil {
		return err
	}
	return s.flush()
}

func (s *eventSink) cut() error {
	if err := s.flush(); err != nil {
		return err
	}
	return errCut
}

func (s *eventSink) flush() error {
	if err := s.buf.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *eventSink) finish() error {
	if err := s.start(); err != nil {
		return err
	}
	err := s.event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},`+
		`"usage":{"output_tokens":%d}}`, stopReason(s.called), outputTokens))
	if err != nil {
		return err
	}
	if err := s.event("message_stop", `{"type":"message_stop"}`); err != nil {
		return err
	}
	return s.flush()
}

func stopReason(called bool) string {
	if called {
		return "tool_use"
	}
	return "end_turn"
}

// wholeSink collects an answer and writes it as one message.
type wholeSink struct {
	w      http.ResponseWriter
	model  string
	tools  []string
	blocks []map[string]any
	kind   blockKind
	text   []byte
	called bool
}

var _ sink = (*wholeSink)(nil)

func (s *wholeSink) open(kind blockKind) error {
	s.kind, s.text = kind, nil
	return nil
}

func (s *wholeSink) delta(text string) error {
	s.text = append(s.text, text...)
	return nil
}

func (s *wholeSink) shut() error {
	block := map[string]any{"type": s.kind, string(s.kind): string(s.text)}
	if s.kind == blockThink {
		block["signature"] = thinkSignature
	}
	s.blocks = append(s.blocks, block)
	return nil
}

func (s *wholeSink) call(c Call) error {
	s.called = true
	name, input := nativeCall(c, s.tools)
	s.blocks = append(s.blocks, map[string]any{"type": "tool_use", "id": newID("toolu_"), "name": name, "input": input})
	return nil
}

func (s *wholeSink) fail(status int, message string) error {
	return writeAPIError(s.w, status, message)
}

func (s *wholeSink) cut() error   { return errCut }
func (s *wholeSink) flush() error { return nil }

func (s *wholeSink) finish() error {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.Header().Set("Request-Id", newID("req_"))
	return json.NewEncoder(s.w).Encode(map[string]any{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": s.model,
		"content": s.blocks, "stop_reason": stopReason(s.called), "stop_sequence": nil,
		"usage": map[string]int{
			"input_tokens": inputTokens, "output_tokens": outputTokens,
			"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
		},
	})
}
