package codex

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// asWritten takes what encoding/json takes, but for names in another case: of
// two fields of a name the last one counts.
var asWritten = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.MergeWithLegacySemantics(true))

var (
	errNoObject  = errors.New("not a JSON object")
	errEncoding  = errors.New("not UTF-8")
	errNoType    = errors.New(`field "type" is missing`)
	errNoPayload = errors.New(`field "payload" is missing`)
)

// decodeObject reads a line, which must be a JSON object.
func decodeObject(data []byte, into any) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return errNoObject
	}
	if !utf8.Valid(data) {
		return errEncoding
	}
	return decode(data, into)
}

func decode(data []byte, into any) error { return tellWhy(json.Unmarshal(data, into, asWritten)) }

// tellWhy says what is wrong in the words that people know: the decoder's
// speak of Go.
func tellWhy(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("no valid JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	if meaning, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Errorf("field %q is a JSON %s, which it never is", meaning.JSONPointer, meaning.JSONKind)
	}
	return err
}
