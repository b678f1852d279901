package modelsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// thinkSignature takes the place of the signature that a real server adds to thinking.
const thinkSignature = "RmFrZVNpZ25hdHVyZQ=="

// eventSink streams an answer as server-sent events.
type eventSink struct {
	stream
	model  string
	tools  []string
	index  int
	kind   blockKind
	called bool
}

var _ response = (*eventSink)(nil)

func newEventSink(w http.ResponseWriter, model string, tools []string) *eventSink {
	return &eventSink{stream: newStream(w), model: model, tools: tools}
}

func (s *eventSink) start() error {
	if !s.begin() {
		return nil
	}
	return s.event("message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":%q,"type":"message",`+
		`"role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,`+
		`"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`,
		newID("msg_"), quoted(s.model), inputTokens))
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
	name, input := nativeCall(c, s.tools, anthropicDialect())
	err := s.event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":`+
		`{"type":"tool_use","id":%q,"name":%s,"input":{}}}`, s.index, newID("toolu_"), quoted(name)))
	if err != nil {
		return err
	}
	for _, half := range halves(input) {
		err := s.event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":`+
			`{"type":"input_json_delta","partial_json":%s}}`, s.index, quoted(half)))
		if err != nil {
			return err
		}
	}
	return s.shut()
}

// fail sends a status if none was sent, else an error event in the stream.
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

// newWholeMessage answers with one message.
func newWholeMessage(w http.ResponseWriter, a asked) *whole {
	return &whole{
		refuse: func(status int, message string) error { return writeAPIError(w, status, message) },
		write: func(blocks []block) error {
			w.Header().Set("Request-Id", newID("req_"))
			return writeJSON(w, http.StatusOK, map[string]any{
				"id": newID("msg_"), "type": "message", "role": "assistant", "model": a.model,
				"content": messageContent(blocks, a.Tools), "stop_reason": stopReason(anyCall(blocks)), "stop_sequence": nil,
				"usage": map[string]int{
					"input_tokens": inputTokens, "output_tokens": outputTokens,
					"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
				},
			})
		},
	}
}

func messageContent(blocks []block, tools []string) []any {
	out := []any{}
	for _, b := range blocks {
		switch {
		case b.call != nil:
			name, input := nativeCall(*b.call, tools, anthropicDialect())
			out = append(out, map[string]any{"type": "tool_use", "id": newID("toolu_"), "name": name, "input": input})
		case b.kind == blockThink:
			out = append(out, map[string]any{"type": b.kind, "thinking": b.text, "signature": thinkSignature})
		default:
			out = append(out, map[string]any{"type": b.kind, "text": b.text})
		}
	}
	return out
}
