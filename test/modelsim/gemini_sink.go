package modelsim

import (
	"net/http"
	"strings"
)

// geminiStream streams an answer as pieces of content.
type geminiStream struct {
	stream
	asked
	id   string
	kind blockKind
	// thought collects a thought: the API sends each whole, with a heading.
	thought strings.Builder
}

var _ response = (*geminiStream)(nil)

func newGeminiStream(w http.ResponseWriter, a asked) *geminiStream {
	return &geminiStream{stream: newStream(w), asked: a, id: newID("")}
}

// geminiThought is a thought with its heading.
func geminiThought(text string) string { return "**Considering**\n" + text }

func (s *geminiStream) part(part string) error {
	s.begin()
	return s.event("", `{"candidates":[{"content":{"role":"model","parts":[`+part+`]},"index":0}],"modelVersion":`+
		string(quoted(s.model))+`,"responseId":"`+s.id+`"}`)
}

func (s *geminiStream) open(kind blockKind) error {
	s.kind = kind
	s.begin()
	return nil
}

// delta allocates nothing for plain text: benchmarks call it without end.
func (s *geminiStream) delta(text string) error {
	if s.kind == blockThink {
		s.thought.WriteString(text)
		return nil
	}
	b := s.buf.AvailableBuffer()
	b = append(b, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":`...)
	b = appendQuoted(b, text)
	b = append(b, `}]},"index":0}],"modelVersion":`...)
	b = appendQuoted(b, s.model)
	b = append(b, `,"responseId":"`...)
	b = append(b, s.id...)
	b = append(b, "\"}\n\n"...)
	_, err := s.buf.Write(b)
	return err
}

func (s *geminiStream) shut() error {
	if s.kind == blockThink {
		err := s.part(`{"text":` + string(quoted(geminiThought(s.thought.String()))) + `,"thought":true}`)
		s.thought.Reset()
		if err != nil {
			return err
		}
	}
	return s.flush()
}

func (s *geminiStream) call(c Call) error {
	name, input := nativeCall(c, s.Tools, geminiDialect())
	if err := s.part(`{"functionCall":{"name":` + string(quoted(name)) + `,"args":` + string(input) + `}}`); err != nil {
		return err
	}
	return s.flush()
}

// fail sends a status if none was sent, else an error in the stream.
func (s *geminiStream) fail(status int, message string) error {
	if !s.started {
		return gemini{}.fail(s.w, status, message)
	}
	if err := s.event("", string(quoted(newGeminiError(status, message)))); err != nil {
		return err
	}
	return s.flush()
}

func (s *geminiStream) finish() error {
	s.begin()
	last := geminiMessage(s.model, []any{map[string]any{"text": ""}})
	last["responseId"] = s.id
	if err := s.event("", string(quoted(last))); err != nil {
		return err
	}
	return s.flush()
}

// geminiMessage is the end of an answer, with the parts that are left.
func geminiMessage(model string, parts []any) map[string]any {
	return map[string]any{
		"candidates": []any{map[string]any{
			"content": map[string]any{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0,
		}},
		"usageMetadata": map[string]int{
			"promptTokenCount": inputTokens, "candidatesTokenCount": outputTokens, "totalTokenCount": inputTokens + outputTokens,
		},
		"modelVersion": model,
	}
}

// newWholeGemini answers with one message.
func newWholeGemini(w http.ResponseWriter, a asked) *whole {
	return &whole{
		refuse: func(status int, message string) error { return gemini{}.fail(w, status, message) },
		write: func(blocks []block) error {
			parts := []any{}
			for _, b := range blocks {
				parts = append(parts, geminiPartOf(b, a.Tools))
			}
			return writeJSON(w, http.StatusOK, geminiMessage(a.model, parts))
		},
	}
}

func geminiPartOf(b block, tools []string) map[string]any {
	switch {
	case b.call != nil:
		name, input := nativeCall(*b.call, tools, geminiDialect())
		return map[string]any{"functionCall": map[string]any{"name": name, "args": input}}
	case b.kind == blockThink:
		return map[string]any{"text": geminiThought(b.text), "thought": true}
	}
	return map[string]any{"text": b.text}
}
