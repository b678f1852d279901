package modelsim

import (
	"bufio"
	"net/http"
	"unicode/utf8"
)

// The usage of every answer, so that sums are easy to check.
const (
	inputTokens  = 100
	outputTokens = 20
)

// stream is a response of server-sent events.
type stream struct {
	w       http.ResponseWriter
	buf     *bufio.Writer
	started bool
}

func newStream(w http.ResponseWriter) stream {
	return stream{w: w, buf: bufio.NewWriterSize(w, 32<<10)}
}

// begin sends the head of the response, as late as possible: a scripted error
// before it can still choose the status. first reports whether it was the first time.
func (s *stream) begin() (first bool) {
	if s.started {
		return false
	}
	s.started = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", newID("req_"))
	return true
}

// event writes one event; without a name, as some protocols do without.
func (s *stream) event(name, data string) error {
	if name != "" {
		if _, err := s.buf.WriteString("event: " + name + "\n"); err != nil {
			return err
		}
	}
	_, err := s.buf.WriteString("data: " + data + "\n\n")
	return err
}

func (s *stream) flush() error {
	if err := s.buf.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *stream) cut() error {
	if err := s.flush(); err != nil {
		return err
	}
	return errCut
}

// appendQuoted encodes plain text without allocating.
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

// halves cuts a text in two anywhere, as models stream their calls.
func halves(text []byte) [2]string {
	runes := []rune(string(text))
	return [2]string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

// block is one part of a whole answer: a text or a call.
type block struct {
	kind blockKind
	text string
	call *Call
}

// whole collects an answer that goes out as one message.
type whole struct {
	blocks []block
	// write sends the answer.
	write func(blocks []block) error
	// refuse sends an error instead.
	refuse func(status int, message string) error
}

var _ response = (*whole)(nil)

func (s *whole) open(kind blockKind) error {
	s.blocks = append(s.blocks, block{kind: kind})
	return nil
}

func (s *whole) delta(text string) error {
	s.blocks[len(s.blocks)-1].text += text
	return nil
}

func (s *whole) shut() error { return nil }

func (s *whole) call(c Call) error {
	s.blocks = append(s.blocks, block{call: &c})
	return nil
}

func (s *whole) fail(status int, message string) error { return s.refuse(status, message) }
func (s *whole) cut() error                            { return errCut }
func (s *whole) flush() error                          { return nil }
func (s *whole) finish() error                         { return s.write(s.blocks) }

// anyCall reports whether an answer asks for a tool.
func anyCall(blocks []block) bool {
	for _, b := range blocks {
		if b.call != nil {
			return true
		}
	}
	return false
}
