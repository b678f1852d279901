package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/archive"
)

// MessageOf returns the message of a signal in its workflow's history, which has
// a reference in place of a large one.
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

// asEncodingJSON accepts what programs that use encoding/json rely on: names in
// any case, and texts that are not UTF-8.
var asEncodingJSON = json.JoinOptions(json.MatchCaseInsensitiveNames(true),
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decodeObject reads the text once: large messages may arrive in numbers, and a
// workflow has little time for each.
func decodeObject(data []byte, m *Message) error {
	err := json.Unmarshal(data, m, asEncodingJSON, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) {
		if err != nil {
			return Invalid("message", err.Error(), messageForm)
		}
		return nil
	}
	field := "message" + strings.ReplaceAll(string(wrong.JSONPointer), "/", ".")
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return Invalid(field, "is no field of a message", messageForm)
	case wrong.JSONPointer == "":
		return Invalid(field, "is a JSON "+kindOf(wrong.JSONKind), messageForm)
	}
	return Invalid(field, "is a JSON "+kindOf(wrong.JSONKind), "a "+wrong.GoType.String())
}

// respondForm is what a signal respond should have been.
const respondForm = `"allow", "deny", or {"requestId": "…", "allow": true}`

// DecodeRespond reads the payload of a signal respond: a RespondRequest as JSON, or
// the text allow or deny for the one request that is open. Errors: *InvalidError,
// which names the field.
func DecodeRespond(p *commonpb.Payload) (RespondRequest, error) {
	var req RespondRequest
	data := bytes.TrimSpace(p.GetData())
	switch string(bytes.Trim(data, `"`)) {
	case "allow":
		req.Allow = true
		return req, nil
	case "deny":
		return req, nil
	}
	form := struct {
		RespondRequest
		// Allow has no default: a missing value must not deny.
		Allow *bool `json:"allow"`
	}{}
	err := json.Unmarshal(data, &form, asEncodingJSON, json.RejectUnknownMembers(true))
	if wrong := (*json.SemanticError)(nil); errors.As(err, &wrong) && wrong.JSONPointer != "" {
		return req, Invalid(strings.ReplaceAll(string(wrong.JSONPointer)[1:], "/", "."), "is no field of an answer, or of another type", respondForm)
	}
	if err != nil {
		return req, Invalid("respond", "is neither allow nor deny, nor a JSON object", respondForm)
	}
	if form.Allow == nil {
		return req, Invalid("allow", "is missing", respondForm)
	}
	req = form.RespondRequest
	req.Allow = *form.Allow
	return req, nil
}

// kindOf names a kind as encoding/json does; jsontext names some by their sign.
func kindOf(k jsontext.Kind) string {
	switch k {
	case jsontext.KindBeginObject:
		return "object"
	case jsontext.KindBeginArray:
		return "array"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "bool"
	}
	return k.String()
}
