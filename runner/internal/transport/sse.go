package transport

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// sse reads a stream of server-sent events that comes in pieces, by the rules
// of the HTML standard: lines end with LF, CR or both, data lines of one event
// are joined, an empty line ends it, and an event that is cut short is none.
// Names, ids and comments are of no use to a spool.
type sse struct {
	torn  torn
	begun bool // a line has been seen, so there can be no byte order mark
	cr    bool // the last byte was a CR: an LF right after it belongs to it
	data  []string
}

// cut gives the data of every event that a piece ends.
func (s *sse) cut(piece []byte) (events []string) {
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
			s.torn.add(piece)
			return events
		}
		s.cr = piece[i] == '\r'
		if data, ends := s.line(s.torn.end(piece[:i])); ends {
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

// line takes one line; ends says that it was the end of an event with data.
func (s *sse) line(line string) (data string, ends bool) {
	if !s.begun {
		line, s.begun = strings.TrimPrefix(line, "\uFEFF"), true
	}
	if line == "" {
		data, ends = strings.Join(s.data, "\n"), len(s.data) > 0
		s.data = nil
		return data, ends
	}
	if field, value, _ := strings.Cut(line, ":"); field == "data" {
		s.data = append(s.data, strings.TrimPrefix(value, " "))
	}
	return "", false
}

// oneLine makes data with line ends one line of JSON: the same value if it is
// JSON, else a text in an object that says so.
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
