// Package traffic is an agent's native traffic as the spool keeps it: one record a line,
// in both directions.
package traffic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
)

// Record is one line of an agent's native traffic, without its line end.
//
// Its JSON form is {"ts", "dir", "line"}, with "cut" {"bytes", "sha256"} for a
// line that was too long to be kept in full. A line that is not valid UTF-8
// can't be a JSON string: then "line" holds the readable approximation and
// "raw" the exact bytes in base64, and decoding restores the exact bytes.
type Record struct {
	// TS is when the runner saw the line, in UTC; zero when not known.
	TS   time.Time
	Dir  event.Dir
	Line string
	// Cut describes the whole of a Line that was cut; nil for a line in full.
	Cut *Cut
}

// Cut describes a line that was kept only in part.
type Cut struct {
	// Bytes is the length of the whole line, without its line end.
	Bytes int64 `json:"bytes"`
	// SHA256 of the whole line, in hex.
	SHA256 string `json:"sha256"`
}

// String describes the cut for people.
func (c Cut) String() string {
	return fmt.Sprintf("cut: %d bytes, sha256 %s", c.Bytes, c.SHA256)
}

// MarshalJSON writes the form that [Append] writes. It fails on a
// direction that [Record.UnmarshalJSON] would refuse.
func (r Record) MarshalJSON() ([]byte, error) {
	if !r.Dir.Valid() {
		return nil, badDir(r.Dir)
	}
	return Append(nil, r), nil
}

// Append appends the JSON form of r to dst, without a line end, and
// returns the longer slice; it is the spool's fast path and holds no line
// breaks. A stamp outside the years 0 to 9999 has no RFC 3339 form and is
// left out.
func Append(dst []byte, r Record) []byte {
	dst = append(dst, '{')
	if ts := r.TS.UTC(); !ts.IsZero() && ts.Year() >= 0 && ts.Year() <= 9999 {
		dst = append(dst, `"ts":"`...)
		dst = ts.AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"dir":`...)
	dst = event.AppendString(dst, string(r.Dir))
	dst = append(dst, `,"line":`...)
	dst = event.AppendString(dst, r.Line)
	if !utf8.ValidString(r.Line) {
		dst = append(dst, `,"raw":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(r.Line))
		dst = append(dst, '"')
	}
	return append(AppendCut(dst, r.Cut), '}')
}

// AppendCut appends the field "cut" of a record's JSON form, with its comma; for
// nil it appends nothing.
func AppendCut(dst []byte, c *Cut) []byte {
	if c == nil {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `,"cut":{"bytes":`...), c.Bytes, 10)
	dst = event.AppendString(append(dst, `,"sha256":`...), c.SHA256)
	return append(dst, '}')
}

// UnmarshalJSON takes ts as RFC 3339 text or Unix milliseconds, and "ms"
// (milliseconds since the start of a recording) in its place.
func (r *Record) UnmarshalJSON(data []byte) error {
	var w struct {
		TS   json.RawMessage `json:"ts"`
		MS   *float64        `json:"ms"`
		Dir  event.Dir       `json:"dir"`
		Line *string         `json:"line"`
		Raw  []byte          `json:"raw"`
		Cut  *Cut            `json:"cut"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if w.Raw != nil {
		exact := string(w.Raw)
		w.Line = &exact
	}
	if w.Line == nil {
		return fmt.Errorf("record: field \"line\" is missing")
	}
	if !w.Dir.Valid() {
		return badDir(w.Dir)
	}
	ts, err := recordTime(w.TS, w.MS)
	if err != nil {
		return err
	}
	*r = Record{TS: ts, Dir: w.Dir, Line: *w.Line, Cut: w.Cut}
	return nil
}

func badDir(d event.Dir) error {
	return fmt.Errorf("record: field \"dir\" is %q, want in, out, err or sig", d)
}

func recordTime(ts json.RawMessage, ms *float64) (time.Time, error) {
	if len(ts) == 0 || string(ts) == "null" {
		if ms == nil {
			return time.Time{}, nil
		}
		return fromMillis("ms", *ms)
	}
	if ts[0] == '"' {
		var t time.Time
		if err := json.Unmarshal(ts, &t); err != nil {
			return time.Time{}, fmt.Errorf("record: field \"ts\": %w", err)
		}
		if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
			return time.Time{}, fmt.Errorf("record: field \"ts\": %s is out of range in UTC", ts)
		}
		return t, nil
	}
	var n float64
	if err := json.Unmarshal(ts, &n); err != nil {
		return time.Time{}, fmt.Errorf("record: field \"ts\": %w", err)
	}
	return fromMillis("ts", n)
}

// maxMillis is the first day of the year 10000, the end of RFC 3339.
const maxMillis = 253402300800000

func fromMillis(field string, ms float64) (time.Time, error) {
	if !(math.Abs(ms) < maxMillis/4) {
		return time.Time{}, fmt.Errorf("record: field %q: %g milliseconds is out of range", field, ms)
	}
	whole, part := math.Modf(ms)
	return time.UnixMilli(int64(whole)).Add(time.Duration(part * float64(time.Millisecond))).UTC(), nil
}
