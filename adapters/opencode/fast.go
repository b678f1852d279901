package opencode

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Most of what a server says are the pieces of texts, and news that are no
// part of the conversation. Both are known by how the server writes them, and
// read without the decoder; a line that is written another way goes to it.

// fastType is the type of an event as the server writes it: behind the id.
func fastType(line string) string {
	rest, found := strings.CutPrefix(line, `{"id":"evt_`)
	if !found {
		return ""
	}
	at := strings.IndexByte(rest, '"')
	if at < 0 {
		return ""
	}
	rest, found = strings.CutPrefix(rest[at:], `","type":"`)
	if !found {
		return ""
	}
	at = strings.IndexByte(rest, '"')
	if at < 0 {
		return ""
	}
	return rest[:at]
}

// fastDelta reads a piece of a text.
func fastDelta(line string) (p properties, ok bool) {
	_, rest, found := strings.Cut(line, `","type":"message.part.delta","properties":{"sessionID":"`)
	if !found {
		return p, false
	}
	for _, next := range []struct {
		into  *string
		until string
	}{{&p.SessionID, `","messageID":"`}, {new(string), `","partID":"`}, {&p.PartID, `","field":"`}, {&p.Field, `","delta":`}} {
		if *next.into, rest, ok = plainUntil(rest, next.until); !ok {
			return p, false
		}
	}
	quoted, found := strings.CutSuffix(rest, `}}`)
	if !found {
		return p, false
	}
	p.Delta, ok = unquote(quoted)
	return p, ok
}

// plainUntil cuts off a text that needs no decoding.
func plainUntil(text, until string) (before, rest string, ok bool) {
	before, rest, ok = strings.Cut(text, until)
	return before, rest, ok && plain(before)
}

// unquote reads a JSON string.
func unquote(quoted string) (string, bool) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return "", false
	}
	inner := quoted[1 : len(quoted)-1]
	if plain(inner) {
		return inner, true
	}
	var s string
	err := json.Unmarshal([]byte(quoted), &s)
	return s, err == nil
}

// plain says whether a JSON string means just what is written.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' || s[i] < ' ' {
			return false
		}
	}
	return utf8.ValidString(s)
}
