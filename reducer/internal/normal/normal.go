// Package normal brings the values of events into the one form that folded states
// hold, so that a state survives JSON and equal states compare equal.
package normal

import (
	"bytes"
	"encoding/json"
	"time"
)

// Time returns t in UTC without a monotonic reading. A time that RFC 3339 cannot represent
// would make the state impossible to encode and counts as missing.
func Time(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if year := t.Year(); year < 0 || year > 9999 {
		return time.Time{}
	}
	return t
}

// Raw returns raw without insignificant space. What is not JSON becomes a JSON
// string: a fold cannot refuse it.
func Raw(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		return Text(string(raw))
	}
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return Text(string(raw))
	}
	return buf.Bytes()
}

// RawOrNull is like Raw, and returns null for an empty value.
func RawOrNull(raw json.RawMessage) json.RawMessage {
	if raw = Raw(raw); raw == nil {
		return json.RawMessage(`null`)
	}
	return raw
}

// Text returns s as a JSON string. Encoding a string can't fail.
func Text(s string) json.RawMessage {
	raw, err := JSON(s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return raw
}

// JSON encodes v and does not escape < and >, so that a person can read a shell
// command; an outer encoder may still escape them.
func JSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
