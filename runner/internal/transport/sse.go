package transport

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// sse reads a stream of server-sent events that arrives in pieces, by the rules
// of the HTML standard: lines end with LF, CR or both, data lines of one event
// are joined, an empty line ends it, and an incomplete event is ignored. Names,
// ids and comments are dropped.
type sse struct {
	lines splitter
	begun bool // a line has been seen, so there can be no byte order mark
	cr    bool // the last byte was a CR: an LF right after it is part of the line end
	// data is that of the current event; nil before its first data line.
	data *jsonl.LineCutter
	// cutLine is the first data line of the event that was cut.
	cutLine *traffic.Cut
}

// cut returns the data of every event that ends in a piece.
func (s *sse) cut(piece []byte) (events []line) {
	for len(piece) > 0 {
		if s.cr {
			s.cr = false
			if piece[0] == '\n' {
				piece = piece[1:]
				continue
			}
		}
		i := lineEnd(piece)
		if i < 0 {
			s.lines.add(piece)
			return events
		}
		s.cr = piece[i] == '\r'
		if data, ends := s.line(s.lines.end(piece[:i])); ends {
			events = append(events, data)
		}
		piece = piece[i+1:]
	}
	return events
}

// lineEnd looks for LF first: data in JSON holds no CR, and is long.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		return j
	}
	return i
}

// line takes one line; ends reports whether it ended an event with data.
func (s *sse) line(l line) (data line, ends bool) {
	if !s.begun {
		l.text, s.begun = strings.TrimPrefix(l.text, "\uFEFF"), true
	}
	if l.text == "" {
		return s.end()
	}
	if field, value, _ := strings.Cut(l.text, ":"); field == "data" {
		s.add(strings.TrimPrefix(value, " "), l.cut)
	}
	return line{}, false
}

func (s *sse) add(value string, cut *traffic.Cut) {
	if s.data == nil {
		s.data = &jsonl.LineCutter{Max: s.lines.max}
	} else {
		_, _ = s.data.Write([]byte{'\n'}) // never fails
	}
	_, _ = s.data.Write([]byte(value)) // never fails
	if s.cutLine == nil {
		s.cutLine = cut
	}
}

// end returns the event's data, if it has any. A cut of one of its lines counts
// for the event.
func (s *sse) end() (data line, ends bool) {
	if s.data == nil {
		return line{}, false
	}
	text, cut := s.data.Take()
	if s.cutLine != nil {
		cut = s.cutLine
	}
	s.data, s.cutLine = nil, nil
	return line{string(text), cut}, true
}

// oneLine turns data with line ends into one line of JSON: the same value if it
// is JSON, else an object with the text.
func oneLine(data string) string {
	if !strings.Contains(data, "\n") {
		return data
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(data)) == nil {
		return b.String()
	}
	return string(append(wire.AppendString([]byte(`{"type":"sojourn.text","text":`), data), '}'))
}
