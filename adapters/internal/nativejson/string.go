package nativejson

import (
	"encoding/json"
	"unicode/utf8"
)

// Plain reports whether the inside of a JSON string is its own value: no escapes,
// no quotes, no control characters, valid UTF-8.
func Plain(inside string) bool {
	for i := range len(inside) {
		if c := inside[i]; c == '"' || c == '\\' || c < ' ' {
			return false
		}
	}
	return utf8.ValidString(inside)
}

// Unquote decodes the inside of a JSON string, without its quotes. ok is false
// for what isn't the inside of one whole string, and for what is not valid UTF-8,
// which a decoder would repair or refuse.
func Unquote(inside string) (text string, ok bool) {
	if Plain(inside) {
		return inside, true
	}
	if !utf8.ValidString(inside) {
		return "", false
	}
	err := json.Unmarshal([]byte(`"`+inside+`"`), &text)
	return text, err == nil
}
