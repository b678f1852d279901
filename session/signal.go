package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
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
		if err := decodeObject(data, &m, messageFields); err != nil {
			return m, err
		}
	}
	return m, m.Validate()
}

// DecodeRequest reads the payload of an update, or of a signal that is none of text: one JSON
// object, or nothing where nothing is required. Errors: *InvalidError, which names the
// field; the update itself, by its name, if there is no object.
func DecodeRequest[Req any](name string, p *commonpb.Payload) (req Req, err error) {
	f := fields{whole: name, form: "a JSON object"}
	if name == UpdateSend {
		f = messageFields
	}
	data := bytes.TrimSpace(p.GetData())
	switch {
	case string(p.GetMetadata()[converter.MetadataEncoding]) == EncodingUnreadable:
		return req, Invalid(f.whole, "can't be read: "+string(data), f.form)
	case len(data) == 0:
		return req, nil
	}
	if err := decodeObject(data, &req, f); err != nil {
		return req, err
	}
	if _, answers := any(req).(RespondRequest); answers {
		return req, requireAllow(data)
	}
	return req, nil
}

// AcceptedRequest reads a request that DecodeRequest, or its predecessor in an earlier
// version, has accepted. When a history is replayed it must be accepted again.
func AcceptedRequest[Req any](p *commonpb.Payload) (req Req, err error) {
	if data := p.GetData(); len(data) > 0 {
		err = json.Unmarshal(data, &req, asEncodingJSON)
	}
	return req, err
}

// asEncodingJSON accepts what programs that use encoding/json rely on: names in
// any case, and texts that are not UTF-8.
var asEncodingJSON = json.JoinOptions(json.MatchCaseInsensitiveNames(true),
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// fields says how a request's fields are named in errors.
type fields struct {
	// whole is the name of the request, prefix that of its fields, form what it should
	// have been.
	whole, prefix, form string
}

var messageFields = fields{"message", "message.", messageForm}

// decodeObject reads the text once: large messages may arrive in numbers, and a
// workflow has little time for each.
func decodeObject(data []byte, into any, f fields) error {
	err := json.Unmarshal(data, into, asEncodingJSON, json.RejectUnknownMembers(true))
	wrong, known := errors.AsType[*json.SemanticError](err)
	switch {
	case err == nil:
		return nil
	case !known:
		return Invalid(f.whole, err.Error(), f.form)
	case wrong.JSONPointer == "" && wrong.JSONKind != jsontext.KindInvalid:
		return Invalid(f.whole, "is a JSON "+kindOf(wrong.JSONKind), f.form)
	case wrong.JSONPointer == "":
		return Invalid(f.whole, err.Error(), f.form)
	}
	field := f.prefix + strings.ReplaceAll(string(wrong.JSONPointer)[1:], "/", ".")
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return Invalid(field, "is no field of a "+f.whole, f.form)
	case wrong.JSONKind == jsontext.KindInvalid:
		return Invalid(field, err.Error(), wanted(wrong.GoType))
	}
	return Invalid(field, "is a JSON "+kindOf(wrong.JSONKind), wanted(wrong.GoType))
}

// wanted describes a Go type as JSON has it.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "a bool"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
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
	if len(data) == 0 || data[0] != '{' {
		return req, Invalid("respond", "is neither allow nor deny, nor a JSON object", respondForm)
	}
	if err := decodeObject(data, &req, fields{"respond", "", respondForm}); err != nil {
		return req, err
	}
	return req, requireAllow(data)
}

// requireAllow refuses an answer without the field allow, which has no default: a missing
// one must not deny.
func requireAllow(data []byte) error {
	var form struct {
		Allow *bool `json:"allow"`
	}
	if err := json.Unmarshal(data, &form, asEncodingJSON); err != nil || form.Allow == nil {
		return Invalid("allow", "is missing", respondForm)
	}
	return nil
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
