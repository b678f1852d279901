package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// AppendEvent appends the wire form of e to dst, on one line and without a
// line end, and returns the longer slice. It fails where [Event.MarshalJSON]
// does, and then returns dst as it was.
//
// It differs from json.Marshal in two ways: the payload of an [Unknown] keeps
// its bytes (json.Marshal compacts and escapes what a marshaler returns), and
// deltas, the bulk of every stream, are written without reflection.
func AppendEvent(dst []byte, e Event) ([]byte, error) {
	out, err := appendEvent(dst, e)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendEvent(dst []byte, e Event) ([]byte, error) {
	if e.Payload == nil {
		return dst, fmt.Errorf("event: encode: event without payload")
	}
	if r := rowByStruct[reflect.TypeOf(e.Payload)]; r != nil {
		dst = append(dst, r.head...)
	} else if name := e.Type(); name != "" {
		dst = appendHead(dst, name)
	} else {
		return dst, fmt.Errorf("event: encode: %T is no payload of an event", e.Payload)
	}
	dst, err := appendPayload(dst, e.Payload)
	if err != nil {
		return dst, fmt.Errorf("event: encode %s: %w", e.Type(), err)
	}
	dst = append(dst, `,"context":`...)
	if dst, err = appendContext(dst, e.Context); err != nil {
		return dst, fmt.Errorf("event: encode %s: context: %w", e.Type(), err)
	}
	return append(dst, '}'), nil
}

// appendHead appends the wire form up to the payload.
func appendHead(dst []byte, t Type) []byte {
	dst = AppendString(append(dst, `{"type":`...), string(t))
	return append(dst, `,"payload":`...)
}

func appendPayload(dst []byte, p Payload) ([]byte, error) {
	switch p := p.(type) {
	case BlockDelta:
		dst = append(dst, `{"blockId":`...)
		dst = AppendString(dst, p.BlockID)
		dst = append(dst, `,"delta":`...)
		dst = AppendString(dst, p.Delta)
		return append(dst, '}'), nil
	case Unknown:
		return appendUnknown(dst, p)
	}
	return appendJSON(dst, p)
}

// appendJSON leaves < and > as they are: these bytes are read by programs and
// people, never by a browser's HTML parser.
func appendJSON(dst []byte, v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}

// appendUnknown keeps the raw bytes, unless a line break in them would tear a
// JSON line apart.
func appendUnknown(dst []byte, u Unknown) ([]byte, error) {
	raw, err := u.MarshalJSON()
	if err != nil {
		return dst, err
	}
	if bytes.IndexByte(raw, '\n') < 0 {
		return append(dst, raw...), nil
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return dst, err
	}
	return append(dst, buf.Bytes()...), nil
}

func appendContext(dst []byte, c Context) ([]byte, error) {
	dst = append(dst, '{')
	open := len(dst)
	dst = appendField(dst, open, "sessionId", c.SessionID)
	dst = appendField(dst, open, "conversationId", c.ConversationID)
	dst = appendField(dst, open, "source", string(c.Source))
	if !c.Timestamp.IsZero() {
		dst = appendKey(dst, open, "timestamp")
		dst = append(dst, '"')
		var err error
		if dst, err = c.Timestamp.AppendText(dst); err != nil {
			return dst, err
		}
		dst = append(dst, '"')
	}
	if c.Seq != 0 {
		dst = appendKey(dst, open, "seq")
		dst = strconv.AppendUint(dst, c.Seq, 10)
	}
	return append(dst, '}'), nil
}

func appendKey(dst []byte, open int, key string) []byte {
	if len(dst) > open {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, key...)
	return append(dst, `":`...)
}

func appendField(dst []byte, open int, key, value string) []byte {
	if value == "" {
		return dst
	}
	return AppendString(appendKey(dst, open, key), value)
}
