package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Records have their own codec, equal to encoding/json's in meaning: every line
// of every agent passes it twice, and lines may be huge.

// ErrDamaged means that a record is not what was written.
var ErrDamaged = errors.New("the record is damaged")

// sums is the table of CRC-32C, which processors have in hardware.
var sums = crc32.MakeTable(crc32.Castagnoli)

// A summed record has one more field at its end, the checksum of all bytes
// before it: ,"crc":"01234567"}
const (
	sumBegin  = `,"crc":"`
	sumEnd    = `"}`
	sumLength = len(sumBegin) + 8 + len(sumEnd)
)

// AppendSummed appends a record as JSON with its checksum.
func AppendSummed(b []byte, r traffic.Record) []byte {
	from := len(b)
	b = AppendJSON(b, r)
	b = b[:len(b)-1]
	sum := crc32.Checksum(b[from:], sums)
	return fmt.Appendf(b, "%s%08x%s", sumBegin, sum, sumEnd)
}

// DecodeSummed reads a record as it is in a spool: what AppendSummed writes, or
// AppendJSON, which older runners without checksums wrote. Anything else is
// ErrDamaged.
func DecodeSummed(raw []byte) (traffic.Record, error) {
	body, sum, summed := cutSum(raw)
	if summed {
		if got := fmt.Sprintf("%08x", crc32.Checksum(body, sums)); got != string(sum) {
			return traffic.Record{}, fmt.Errorf("%w: %d bytes of checksum %s, want %s", ErrDamaged, len(raw), got, sum)
		}
	} else {
		body = bytes.TrimSuffix(raw, []byte{'}'})
	}
	r, ok := decodeBody(body)
	if !ok || !summed && len(body) == len(raw) {
		return traffic.Record{}, fmt.Errorf("%w: %d bytes that are no record", ErrDamaged, len(raw))
	}
	return r, nil
}

// cutSum removes the checksum from a record. The field can't be part of a line,
// whose quotes are escaped.
func cutSum(raw []byte) (body, sum []byte, ok bool) {
	at := len(raw) - sumLength
	if at < 0 || string(raw[at:at+len(sumBegin)]) != sumBegin || string(raw[len(raw)-len(sumEnd):]) != sumEnd {
		return raw, nil, false
	}
	return raw[:at], raw[at+len(sumBegin) : len(raw)-len(sumEnd)], true
}

// AppendJSON appends a record as JSON. Bytes that are not UTF-8 become U+FFFD.
func AppendJSON(b []byte, r traffic.Record) []byte {
	b = append(b, `{"ts":"`...)
	b = r.TS.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","dir":"`...)
	b = append(b, r.Dir...)
	b = append(b, `","line":`...)
	return append(traffic.AppendCut(AppendString(b, r.Line), r.Cut), '}')
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func AppendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	// Room for some escapes: a huge line's buffer would otherwise grow in small
	// steps.
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

// decodeBody accepts exactly what AppendJSON writes, without the last brace.
func decodeBody(raw []byte) (traffic.Record, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"ts":"`))
	ts, rest, ok2 := bytes.Cut(rest, []byte(`","dir":"`))
	dir, rest, ok3 := bytes.Cut(rest, []byte(`","line":"`))
	rest, cut, cutOK := takeCut(rest)
	body, ok4 := bytes.CutSuffix(rest, []byte{'"'})
	if !cutOK || !ok || !ok2 || !ok3 || !ok4 {
		return traffic.Record{}, false
	}
	if !bytes.HasSuffix(ts, []byte{'Z'}) { // a time of another zone may have no year in UTC that JSON can say
		return traffic.Record{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(ts))
	line, ok := unescape(body)
	r := traffic.Record{TS: at.UTC(), Dir: event.Dir(dir), Line: line, Cut: cut}
	switch r.Dir {
	case event.DirIn, event.DirOut, event.DirErr, event.DirSig:
		return r, ok && err == nil
	}
	return r, false
}

// takeCut removes the field "cut" from a record's end, if it is there. It can't
// be part of a line, whose quotes are escaped.
func takeCut(raw []byte) (rest []byte, cut *traffic.Cut, ok bool) {
	const field = `,"cut":`
	at := bytes.LastIndex(raw[max(0, len(raw)-maxCut):], []byte(`"`+field+`{`))
	if at < 0 {
		return raw, nil, true
	}
	at += max(0, len(raw)-maxCut) + 1
	cut = new(traffic.Cut)
	err := json.Unmarshal(raw[at+len(field):], cut)
	return raw[:at], cut, err == nil
}

// maxCut is more than the longest field "cut".
const maxCut = 160

// unescape returns false for anything that appendEscaped does not write.
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

// escaped returns the character behind a backslash and how many bytes it takes; 0
// if appendEscaped does not write it.
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
