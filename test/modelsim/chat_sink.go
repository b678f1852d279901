package modelsim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// chatStream streams an answer as chunks of a chat completion.
type chatStream struct {
	stream
	asked
	// head is what every chunk begins with.
	head  string
	field string
	calls int
}

var _ response = (*chatStream)(nil)

func newChatStream(w http.ResponseWriter, a asked) *chatStream {
	head := fmt.Sprintf(`{"id":%q,"object":"chat.completion.chunk","created":%d,"model":%s,"choices":[`,
		newID("chatcmpl-"), time.Now().Unix(), quoted(a.model))
	return &chatStream{stream: newStream(w), asked: a, head: head}
}

func (s *chatStream) start() error {
	if !s.begin() {
		return nil
	}
	return s.chunk(`{"role":"assistant","content":""}`, "null")
}

// chunk sends one change of the message.
func (s *chatStream) chunk(delta, finish string) error {
	return s.event("", s.head+`{"index":0,"delta":`+delta+`,"finish_reason":`+finish+`}]}`)
}

func (s *chatStream) open(kind blockKind) error {
	s.field = "content"
	if kind == blockThink {
		s.field = "reasoning_content"
	}
	return s.start()
}

// delta allocates nothing for plain text: benchmarks call it without end.
func (s *chatStream) delta(text string) error {
	b := s.buf.AvailableBuffer()
	b = append(b, "data: "...)
	b = append(b, s.head...)
	b = append(b, `{"index":0,"delta":{"`...)
	b = append(b, s.field...)
	b = append(b, `":`...)
	b = appendQuoted(b, text)
	b = append(b, "},\"finish_reason\":null}]}\n\n"...)
	_, err := s.buf.Write(b)
	return err
}

func (s *chatStream) shut() error { return s.flush() }

func (s *chatStream) call(c Call) error {
	if err := s.start(); err != nil {
		return err
	}
	name, input := nativeCall(c, s.Tools, chatDialect())
	index := strconv.Itoa(s.calls)
	s.calls++
	err := s.chunk(fmt.Sprintf(`{"tool_calls":[{"index":%s,"id":%q,"type":"function","function":{"name":%s,"arguments":""}}]}`,
		index, newID("call_"), quoted(name)), "null")
	if err != nil {
		return err
	}
	for _, half := range halves(input) {
		err := s.chunk(`{"tool_calls":[{"index":`+index+`,"function":{"arguments":`+string(quoted(half))+`}}]}`, "null")
		if err != nil {
			return err
		}
	}
	return s.flush()
}

// fail sends a status if none was sent, else an error in the stream.
func (s *chatStream) fail(status int, message string) error {
	if !s.started {
		return writeOpenAIError(s.w, status, message)
	}
	if err := s.event("", string(object("error", newOpenAIError(status, message)))); err != nil {
		return err
	}
	return s.flush()
}

func (s *chatStream) finish() error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.chunk("{}", strconv.Quote(finishReason(s.calls > 0))); err != nil {
		return err
	}
	if s.usage {
		if err := s.event("", s.head+`],"usage":`+string(quoted(chatUsage()))+`}`); err != nil {
			return err
		}
	}
	if err := s.event("", "[DONE]"); err != nil {
		return err
	}
	return s.flush()
}

func finishReason(called bool) string {
	if called {
		return "tool_calls"
	}
	return "stop"
}

func chatUsage() map[string]int {
	return map[string]int{
		"prompt_tokens": inputTokens, "completion_tokens": outputTokens, "total_tokens": inputTokens + outputTokens,
	}
}

// newWholeChat answers with one completion.
func newWholeChat(w http.ResponseWriter, a asked) *whole {
	return &whole{
		refuse: func(status int, message string) error { return writeOpenAIError(w, status, message) },
		write: func(blocks []block) error {
			return writeJSON(w, http.StatusOK, map[string]any{
				"id": newID("chatcmpl-"), "object": "chat.completion", "created": time.Now().Unix(), "model": a.model,
				"choices": []any{map[string]any{
					"index": 0, "message": chatAnswer(blocks, a.Tools), "finish_reason": finishReason(anyCall(blocks)),
				}},
				"usage": chatUsage(),
			})
		},
	}
}

func chatAnswer(blocks []block, tools []string) map[string]any {
	var text, thought strings.Builder
	var calls []any
	for _, b := range blocks {
		switch {
		case b.call != nil:
			name, input := nativeCall(*b.call, tools, chatDialect())
			calls = append(calls, map[string]any{
				"id": newID("call_"), "type": "function",
				"function": map[string]any{"name": name, "arguments": string(input)},
			})
		case b.kind == blockThink:
			thought.WriteString(b.text)
		default:
			text.WriteString(b.text)
		}
	}
	out := map[string]any{"role": "assistant", "content": text.String()}
	if thought.Len() > 0 {
		out["reasoning_content"] = thought.String()
	}
	if calls != nil {
		out["tool_calls"] = calls
	}
	return out
}
