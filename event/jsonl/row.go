package jsonl

import (
	"github.com/sojourn-run/sojourn/event/traffic"
)

// MaxRow is about how many bytes are kept of a row of a database, which may have
// thousands of columns.
const MaxRow = 2 * DefaultMaxLine

// minValue is how many bytes are kept of a value in a row that is too long already.
const minValue = 1 << 10

// CutRow cuts the texts and blobs of a row as lines are cut: a text of at most
// DefaultMaxLine bytes is kept, a longer one that begins like JSON keeps its form, as
// [CutLine] would, and the beginning of any other is followed by a note of its
// length and SHA-256. A cut row is not cut again. The values are replaced.
func CutRow(values []any) {
	left := MaxRow
	for i, v := range values {
		limit := max(min(DefaultMaxLine, left), minValue)
		switch x := v.(type) {
		case string:
			if len(x) > limit {
				x = string(cutText([]byte(x), limit))
				values[i] = x
			}
			left -= len(x)
		case []byte:
			if len(x) > limit {
				x = cutText(x, limit)
				values[i] = x
			}
			left -= len(x)
		}
	}
}

// cutText cuts a text that has no record beside it for the note.
func cutText(text []byte, limit int) []byte {
	c := LineCutter{Max: limit}
	_, _ = c.Write(text) // never fails
	headOnly := c.headOnly
	kept, cut := c.Take()
	if headOnly && cut != nil {
		kept = append(kept, note(*cut)...)
	}
	return kept
}

// note returns the text that follows the beginning of a shortened text.
func note(cut traffic.Cut) string { return "… [" + cut.String() + "]" }
