package nativejson

import (
	"bytes"
	"encoding/json"
)

// Marshal returns v as JSON without escapes for HTML: raw JSON inside is
// unchanged.
func Marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// Encode is [Marshal] for values that can always be encoded, such as strings.
func Encode(v any) json.RawMessage {
	data, _ := Marshal(v)
	return data
}

// String returns the text of a JSON string; "" for anything else.
func String(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
