package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// resolve returns a schema that is ready to check values.
func resolve(schema json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if t := unknownType(&s); t != "" {
		return nil, fmt.Errorf("schema: type %q is unknown", t)
	}
	return s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

// types are those of JSON schemas. The library takes any.
var types = []string{"", "null", "boolean", "object", "array", "number", "string", "integer"}

// unknownType returns the first type in a schema that there is not; "" for none.
func unknownType(s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	for _, t := range append([]string{s.Type}, s.Types...) {
		if !slices.Contains(types, t) {
			return t
		}
	}
	for _, below := range subschemas(s) {
		if t := unknownType(below); t != "" {
			return t
		}
	}
	return ""
}

// subschemas returns the schemas in the fields of a schema.
func subschemas(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).CanInterface() {
			continue
		}
		switch f := fields.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			all = append(all, f)
		case []*jsonschema.Schema:
			all = append(all, f...)
		case map[string]*jsonschema.Schema:
			for _, name := range slices.Sorted(maps.Keys(f)) {
				all = append(all, f[name])
			}
		}
	}
	return all
}

// errNoJSON is the mismatch of an answer without a JSON value.
var errNoJSON = errors.New("the answer has no JSON value")

// find returns the value in an answer that a schema matches. Agents wrap values in words and
// in code fences: the last value that matches counts. The error is that of the last one that
// does not.
func find(schema json.RawMessage, answer string) (json.RawMessage, error) {
	s, err := resolve(schema)
	if err != nil {
		return nil, err
	}
	why := errNoJSON
	var found json.RawMessage
	for _, candidate := range values(answer) {
		var v any
		if err := json.Unmarshal(candidate, &v); err != nil {
			continue
		}
		if err := s.Validate(v); err != nil {
			why = err
			continue
		}
		found = candidate
	}
	if found != nil {
		return found, nil
	}
	return nil, why
}

// values returns the JSON values in a text, in order: the text itself, what is in code
// fences, and each object or array that begins a line.
func values(text string) (all []json.RawMessage) {
	add := func(s string) bool {
		s = strings.TrimSpace(s)
		if s == "" || !json.Valid([]byte(s)) {
			return false
		}
		all = append(all, json.RawMessage(s))
		return true
	}
	if add(text) {
		return all
	}
	for at := 0; at < len(text); {
		line, next := text[at:], len(text)
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			next = at + i + 1
		}
		start := strings.TrimLeft(line, " \t`>")
		switch {
		case strings.HasPrefix(start, "{"), strings.HasPrefix(start, "["):
			d := json.NewDecoder(strings.NewReader(start))
			var v json.RawMessage
			if d.Decode(&v) == nil {
				all = append(all, v)
				next = max(next, at+len(line)-len(start)+int(d.InputOffset()))
			}
		case strings.HasPrefix(strings.TrimLeft(line, " \t"), "```"):
			if end := strings.Index(text[next:], "```"); end >= 0 && add(text[next:next+end]) {
				next += end + 3
			}
		}
		at = next
	}
	return all
}
