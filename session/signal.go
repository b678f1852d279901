package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/archive"
)

// MessageOf returns the message that a signal has in its workflow's history,
// which has a reference in place of a large one.
func MessageOf(ctx context.Context, store *archive.Archive, history *commonpb.Payloads) (Message, error) {
	payloads, err := inline(ctx, store, history)
	if err != nil {
		return Message{}, fmt.Errorf("read a signal's message: %w", err)
	}
	if len(payloads) == 0 {
		return DecodeMessage(nil)
	}
	return DecodeMessage(payloads[0])
}

// messageForm is what a signal should have been.
const messageForm = `{"text": "…"} or a string`

// DecodeMessage reads the payload of a signal message or queue as people and
// programs send it: {"text": "…"}, a JSON string, or plain text. Errors:
// *InvalidError, which names the field.
func DecodeMessage(p *commonpb.Payload) (Message, error) {
	var m Message
	data := bytes.TrimSpace(p.GetData())
	if len(data) == 0 {
		return m, Invalid("message.text", "is missing: the signal has no payload", messageForm)
	}
	var text string
	switch {
	case string(p.GetMetadata()[converter.MetadataEncoding]) == EncodingUnreadable:
		return m, Invalid("message", "can't be read: "+string(data), messageForm)
	case string(p.GetMetadata()[converter.MetadataEncoding]) == converter.MetadataEncodingBinary:
		if !utf8.Valid(data) {
			return m, Invalid("message.text", "is not UTF-8", messageForm)
		}
		m.Text = string(data)
	case data[0] == '"' && json.Unmarshal(data, &text) == nil:
		m.Text = text
	default:
		if err := decodeObject(data, &m); err != nil {
			return m, err
		}
	}
	return m, m.Validate()
}

func decodeObject(data []byte, m *Message) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(m)
	if err == nil && dec.More() {
		err = errors.New("goes on after its JSON value")
	}
	var wrong *json.UnmarshalTypeError
	switch field, unknown := unknownField(err); {
	case err == nil:
		return nil
	case unknown:
		return Invalid("message."+field, "is no field of a message", messageForm)
	case errors.As(err, &wrong) && wrong.Field != "":
		return Invalid("message."+wrong.Field, "is a JSON "+wrong.Value, "a "+wrong.Type.String())
	case wrong != nil:
		return Invalid("message", "is a JSON "+wrong.Value, messageForm)
	}
	return Invalid("message", err.Error(), messageForm)
}

// unknownField names the field that encoding/json knows no place for; it has
// no error type for that.
func unknownField(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	quoted, found := strings.CutPrefix(err.Error(), "json: unknown field ")
	name, bad := strconv.Unquote(quoted)
	return name, found && bad == nil
}
