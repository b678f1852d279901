package event

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Native keeps a native event that the translator does not know, raw: Raw
// when the record is JSON, else Line.
//
// A Line that is not valid UTF-8 travels as "lineBytes" in base64 beside its
// readable approximation, so nothing is lost. A Raw that is not JSON travels as
// Line: keeping the unknown must never fail.
type Native struct {
	body
	Agent string          `json:"agent,omitempty"`
	Dir   Dir             `json:"dir,omitempty"`
	Kind  string          `json:"kind,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Line  string          `json:"line,omitempty"`
}

// nativeFields has the fields of Native without its methods.
type nativeFields Native

type wireNative struct {
	nativeFields
	LineBytes []byte `json:"lineBytes,omitempty"`
}

// MarshalJSON writes the wire form.
func (n Native) MarshalJSON() ([]byte, error) {
	if len(n.Raw) > 0 && !json.Valid(n.Raw) {
		n.Line, n.Raw = string(n.Raw), nil
	}
	w := wireNative{nativeFields: nativeFields(n)}
	if !utf8.ValidString(n.Line) {
		w.LineBytes = []byte(n.Line)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the wire form.
func (n *Native) UnmarshalJSON(data []byte) error {
	var w wireNative
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*n = Native(w.nativeFields)
	if len(w.LineBytes) > 0 {
		n.Line = string(w.LineBytes)
	}
	return nil
}

// Unknown is an event of a type that this version does not know. Raw is the
// payload, byte for byte as received.
type Unknown struct {
	body
	Name Type
	Raw  json.RawMessage
}

// MarshalJSON returns the payload as received; null if there was none.
func (u Unknown) MarshalJSON() ([]byte, error) {
	if len(u.Raw) == 0 {
		return []byte("null"), nil
	}
	if !json.Valid(u.Raw) {
		return nil, fmt.Errorf("payload of unknown type %q is not JSON", u.Name)
	}
	return u.Raw, nil
}
