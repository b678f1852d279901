package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
)

// Records have a codec of their own, equal to encoding/json's in meaning: every
// line of every agent goes through it twice, and lines may be huge.

// AppendJSON appends a record as JSON. Bytes that are no UTF-8 become U+FFFD.
func AppendJSON(b []byte, r event.Record) []byte {
	b = append(b, `{"ts":"`...)
	b = r.TS.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","dir":"`...)
	b = append(b, r.Dir...)
	b = append(b, `","line":`...)
	return append(AppendString(b, r.Line), '}')
}

// AppendString appends s as a JSON string. Bytes that are no UTF-8 become
// U+FFFD.
func AppendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	// Room for some escapes: a huge line's buffer would grow by small steps.
	b = slices.Grow(b, len(s)+len(s)/4+2)
	return append(appendEscaped(append(b, '"'), s), '"')
}

func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for from := 0; ; {
		i := special(s, from)
		b = append(b, s[from:i]...)
		if i == len(s) {
			return b
		}
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		from = i + 1
	}
}

// DecodeRecord reads a record, AppendJSON's form by a short way.
func DecodeRecord(raw []byte) (event.Record, error) {
	if r, ok := decodeOwn(raw); ok {
		return r, nil
	}
	var r event.Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("malformed record: %w", err)
	}
	return r, nil
}

// decodeOwn takes exactly what AppendJSON writes, and nothing else.
func decodeOwn(raw []byte) (event.Record, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"ts":"`))
	ts, rest, ok2 := bytes.Cut(rest, []byte(`","dir":"`))
	dir, rest, ok3 := bytes.Cut(rest, []byte(`","line":"`))
	body, ok4 := bytes.CutSuffix(rest, []byte(`"}`))
	if !ok || !ok2 || !ok3 || !ok4 {
		return event.Record{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(ts))
	line, ok := unescape(body)
	r := event.Record{TS: at.UTC(), Dir: event.Dir(dir), Line: line}
	switch r.Dir {
	case event.DirIn, event.DirOut, event.DirErr, event.DirSig:
		return r, ok && err == nil
	}
	return r, false
}

// unescape is false for anything that appendEscaped does not write.
func unescape(body []byte) (string, bool) {
	if !utf8.Valid(body) {
		return "", false
	}
	var out strings.Builder
	out.Grow(len(body))
	for from := 0; ; {
		i := special(body, from)
		out.Write(body[from:i])
		if i == len(body) {
			return out.String(), true
		}
		if body[i] != '\\' {
			return "", false
		}
		c, n := escaped(body[i+1:])
		if n == 0 {
			return "", false
		}
		out.WriteByte(c)
		from = i + 1 + n
	}
}

// escaped gives what stands behind a backslash and how many bytes it takes; 0
// if it is nothing of appendEscaped's.
func escaped(b []byte) (c byte, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch b[0] {
	case '"', '\\':
		return b[0], 1
	case 't':
		return '\t', 1
	case 'r':
		return '\r', 1
	case 'n':
		return '\n', 1
	}
	if len(b) < 5 || string(b[:3]) != "u00" {
		return 0, 0
	}
	hi, lo := unhex(b[3]), unhex(b[4])
	if hi > 1 || lo > 15 {
		return 0, 0
	}
	return hi<<4 | lo, 5
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
