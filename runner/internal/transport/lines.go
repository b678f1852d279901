package transport

import (
	"bytes"

	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// line is one line of an agent, in full or cut.
type line struct {
	text string
	cut  *traffic.Cut
}

// splitter splits a stream that arrives in pieces into whole lines. Of a line it
// keeps at most max bytes; 0 is the default of [jsonl.LineCutter].
type splitter struct {
	max    int
	prefix string
	torn   *jsonl.LineCutter
}

func (s *splitter) cut(piece []byte) (lines []line) {
	for {
		i := bytes.IndexByte(piece, '\n')
		if i < 0 {
			s.add(piece)
			return lines
		}
		lines = append(lines, s.end(piece[:i]))
		piece = piece[i+1:]
	}
}

// rest returns the last line if it has no line end.
func (s *splitter) rest() []line {
	if s.torn == nil || s.torn.Len() == 0 {
		return nil
	}
	return []line{s.end(nil)}
}

func (s *splitter) add(piece []byte) {
	if s.torn == nil {
		s.torn = &jsonl.LineCutter{Max: s.max, Prefix: s.prefix}
	}
	_, _ = s.torn.Write(piece) // never fails
}

// end returns the line that ends with piece.
func (s *splitter) end(piece []byte) line {
	if s.torn == nil || s.torn.Len() == 0 {
		if max := s.max; max <= 0 && len(piece) <= jsonl.DefaultMaxLine || len(piece) <= max {
			return line{text: string(piece)}
		}
	}
	s.add(piece)
	text, cut := s.torn.Take()
	return line{string(text), cut}
}
