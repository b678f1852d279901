package nativejson

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// AsWritten accepts what encoding/json accepts, except for names in another case:
// of two fields with a name the last one counts, and half a surrogate pair, which
// programs write where they cut a text, becomes U+FFFD.
var AsWritten = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.MergeWithLegacySemantics(true))

var (
	errNoObject = errors.New("not a JSON object")
	errEncoding = errors.New("not UTF-8")
)

// ErrNoType is for lines that must have a type.
var ErrNoType = errors.New(`field "type" is missing`)

// Object returns a line without surrounding space, of JSON's kinds of space. It
// fails on one that is not UTF-8 or cannot be a JSON object.
func Object(line []byte) ([]byte, error) {
	if line = bytes.Trim(line, " \t\r\n"); len(line) == 0 || line[0] != '{' {
		return nil, errNoObject
	}
	if !utf8.Valid(line) {
		return nil, errEncoding
	}
	return line, nil
}

// Explain returns an error in familiar terms: the decoder's speaks of Go types.
// nil stays nil.
func Explain(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("no valid JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	if meaning, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Errorf("field %q is a JSON %s, which it never is", meaning.JSONPointer, meaning.JSONKind)
	}
	return err
}
