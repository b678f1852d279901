package acp

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Nearly all lines of a turn are pieces of text in one form. They are read
// without the decoder; whatever is not exactly of that form goes to it.
const (
	chunkHead = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`
	chunkKind = `","update":{"sessionUpdate":"`
	chunkText = `","content":{"type":"text","text":"`
	// chunkMessage comes before the text from agents that name their messages.
	chunkMessage = `","messageId":"`
	chunkTail    = `"}}}}`
	saidKind     = "agent_message_chunk"
	thoughtKind  = "agent_thought_chunk"
)

// fastChunk reads a piece of text or of a thought; ok is false for any line that
// is not plainly one.
func fastChunk(line string) (kind, message, text string, ok bool) {
	rest, ok := strings.CutPrefix(line, chunkHead)
	if !ok {
		return "", "", "", false
	}
	session, rest, ok := strings.Cut(rest, chunkKind)
	if !ok || strings.ContainsAny(session, `"\`) {
		return "", "", "", false
	}
	kind, rest, ok = strings.Cut(rest, chunkText)
	kind, message, named := strings.Cut(kind, chunkMessage)
	if !ok || kind != saidKind && kind != thoughtKind {
		return "", "", "", false
	}
	if message, ok = stringBody(message); named && !ok {
		return "", "", "", false
	}
	body, ok := strings.CutSuffix(rest, chunkTail)
	if !ok {
		return "", "", "", false
	}
	text, ok = stringBody(body)
	return kind, message, text, ok
}

// stringBody is what stands between the quotes of a JSON string.
func stringBody(body string) (text string, ok bool) {
	escaped := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"' || c < ' ':
			return "", false
		case c == '\\':
			escaped = true
			i++ // the decoder judges what is escaped
		}
	}
	if !utf8.ValidString(body) {
		return "", false
	}
	if !escaped {
		return body, true
	}
	err := json.Unmarshal([]byte(`"`+body+`"`), &text)
	return text, err == nil
}
