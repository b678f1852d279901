package transport

import (
	"bytes"
	"strings"
)

// splitter cuts whole lines out of what comes in pieces.
type splitter struct{ torn torn }

func (s *splitter) cut(piece []byte) (lines []string) {
	for {
		i := bytes.IndexByte(piece, '\n')
		if i < 0 {
			s.torn.add(piece)
			return lines
		}
		lines = append(lines, s.torn.end(piece[:i]))
		piece = piece[i+1:]
	}
}

// rest gives the last line if it has no line end.
func (s *splitter) rest() []string {
	if s.torn.b.Len() == 0 {
		return nil
	}
	return []string{s.torn.end(nil)}
}

// torn is a line that has not come to its end. A huge one is copied about
// twice in all: the buffer doubles, and its string is not one more copy.
type torn struct{ b strings.Builder }

func (t *torn) add(piece []byte) {
	if t.b.Cap()-t.b.Len() < len(piece) {
		t.b.Grow(len(piece)) // which doubles; a plain write grows by a quarter
	}
	t.b.Write(piece)
}

// end gives the line that ends with piece.
func (t *torn) end(piece []byte) string {
	if t.b.Len() == 0 {
		return string(piece)
	}
	t.add(piece)
	defer t.b.Reset()
	return t.b.String()
}
