package jsonl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event/traffic"
)

// DefaultMaxLine is how many bytes of a native line are kept by default.
const DefaultMaxLine = 4 << 20

// CutLine returns a line as a [LineCutter] keeps it. A line that is short enough
// is returned as it is.
func CutLine(line []byte) ([]byte, *traffic.Cut) {
	if len(line) <= DefaultMaxLine {
		return line, nil
	}
	var c LineCutter
	_, _ = c.Write(line) // Write never fails.
	return c.Take()
}

// LineCutter collects one line that arrives in pieces, in bounded memory.
//
// A line of at most Max bytes is kept as it is. A longer one that begins like
// JSON keeps its form: its strings are shortened, each with a note of its length
// and SHA-256 at its end, so that ids and structure survive. Of a line that is
// still too long, or not JSON, only the beginning is kept.
//
// Not safe for concurrent use. The zero value keeps [DefaultMaxLine].
type LineCutter struct {
	// Max is how many bytes are kept. Default: DefaultMaxLine.
	Max int
	// Prefix may precede a JSON text. Default: none.
	Prefix string

	kept []byte
	size int64
	// sum hashes the whole line; nil until the line is too long.
	sum hash.Hash
	// headOnly: the rest of the line is only counted.
	headOnly bool
	text     jsonString
}

// shareOfLine is the fraction of the limit that is kept of one long string, and
// of a line that is not JSON.
const shareOfLine = 8

func (c *LineCutter) max() int {
	if c.Max <= 0 {
		return DefaultMaxLine
	}
	return c.Max
}

// Len returns how many bytes the line has so far.
func (c *LineCutter) Len() int64 { return c.size }

// Write adds the next piece of the line. It never fails.
func (c *LineCutter) Write(piece []byte) (int, error) {
	c.size += int64(len(piece))
	rest := piece
	if c.sum == nil {
		n := min(len(piece), c.max()-len(c.kept))
		c.grow(n)
		c.kept, rest = append(c.kept, piece[:n]...), piece[n:]
		if len(rest) == 0 {
			return len(piece), nil
		}
		c.begin()
	}
	c.sum.Write(rest)
	c.shorten(rest)
	return len(piece), nil
}

// grow doubles the memory, up to the limit.
func (c *LineCutter) grow(n int) {
	if need := len(c.kept) + n; need > cap(c.kept) {
		larger := make([]byte, len(c.kept), min(max(need, 2*cap(c.kept)), c.max()))
		copy(larger, c.kept)
		c.kept = larger
	}
}

// begin starts to cut a line that has become too long.
func (c *LineCutter) begin() {
	c.sum = sha256.New()
	c.sum.Write(c.kept)
	start := bytes.TrimLeft(bytes.TrimPrefix(c.kept, []byte(c.Prefix)), " \t\r\n")
	c.text = jsonString{max: c.max() / shareOfLine}
	if len(start) == 0 || start[0] != '{' && start[0] != '[' {
		c.keepHead()
		return
	}
	whole := c.kept
	c.kept = make([]byte, 0, len(whole)/shareOfLine)
	c.shorten(whole)
}

func (c *LineCutter) shorten(piece []byte) {
	if c.headOnly {
		return
	}
	c.kept = c.text.shorten(c.kept, piece)
	if len(c.kept) > c.max() {
		c.keepHead()
	}
}

// keepHead gives up the JSON form of the line: only its beginning is kept.
func (c *LineCutter) keepHead() {
	c.headOnly = true
	head := c.kept[:min(len(c.kept), c.max()/shareOfLine)]
	for n := 1; n < utf8.UTFMax && n <= len(head); n++ {
		if last := head[len(head)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				head = head[:len(head)-n]
			}
			break
		}
	}
	c.kept = bytes.Clone(head)
}

// Take returns the line, and how long it was if it was cut, and starts the next
// one. The caller owns the line.
func (c *LineCutter) Take() (line []byte, cut *traffic.Cut) {
	line = c.kept
	if c.sum != nil {
		cut = &traffic.Cut{Bytes: c.size, SHA256: hex.EncodeToString(c.sum.Sum(nil))}
	}
	*c = LineCutter{Max: c.Max, Prefix: c.Prefix}
	return line, cut
}

// jsonString shortens the strings of a JSON text that arrives in pieces.
type jsonString struct {
	max int
	// inside is set within a string. began is where its kept part starts.
	inside bool
	began  int
	size   int64
	// escape is how many bytes of an escape sequence are still to come; unsure means
	// that its kind is not known yet.
	escape int
	unsure bool
	// sum hashes the whole string; nil while the string is short.
	sum hash.Hash
}

// shorten appends what is kept of piece to dst.
func (j *jsonString) shorten(dst, piece []byte) []byte {
	for len(piece) > 0 {
		var n int
		if !j.inside {
			if n = bytes.IndexByte(piece, '"') + 1; n == 0 {
				return append(dst, piece...)
			}
			dst = append(dst, piece[:n]...)
			*j = jsonString{max: j.max, inside: true, began: len(dst)}
		} else {
			dst, n = j.string(dst, piece)
		}
		piece = piece[n:]
	}
	return dst
}

// string consumes a part of a string: a run of plain characters, a byte of an
// escape sequence, or the string's end. It returns how many bytes it consumed.
func (j *jsonString) string(dst, piece []byte) ([]byte, int) {
	switch {
	case j.unsure:
		j.unsure = false
		if piece[0] == 'u' {
			j.escape = 4
		}
		return j.keep(dst, piece[:1]), 1
	case j.escape > 0:
		n := min(j.escape, len(piece))
		j.escape -= n
		return j.keep(dst, piece[:n]), n
	case piece[0] == '"':
		return append(j.end(dst), '"'), 1
	case piece[0] == '\\':
		j.unsure = true
		return j.keep(j.limit(dst, piece[0]), piece[:1]), 1
	}
	dst = j.limit(dst, piece[0])
	n := plainRun(piece)
	if j.sum == nil {
		n = min(n, max(1, j.max-int(j.size)))
	}
	return j.keep(dst, piece[:n]), n
}

// plainRun returns how many bytes precede the next quote or backslash. It looks
// no further: a text may have an escape every few bytes.
func plainRun(piece []byte) int {
	for i, c := range piece {
		if c == '"' || c == '\\' {
			return i
		}
	}
	return len(piece)
}

// limit stops keeping a string that is long enough, at a character's boundary.
func (j *jsonString) limit(dst []byte, next byte) []byte {
	if j.sum == nil && j.size >= int64(j.max) && utf8.RuneStart(next) {
		j.sum = sha256.New()
		j.sum.Write(dst[j.began:])
	}
	return dst
}

func (j *jsonString) keep(dst, part []byte) []byte {
	j.size += int64(len(part))
	if j.sum == nil {
		return append(dst, part...)
	}
	j.sum.Write(part)
	return dst
}

// end appends to a shortened string a note of its whole length.
func (j *jsonString) end(dst []byte) []byte {
	if j.sum != nil {
		cut := traffic.Cut{Bytes: j.size, SHA256: hex.EncodeToString(j.sum.Sum(nil))}
		dst = append(dst, note(cut)...)
	}
	*j = jsonString{max: j.max}
	return dst
}
