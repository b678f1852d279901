package acp

import (
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// Nearly all lines of a turn are pieces of text in one form. They are read
// without the decoder; any other form goes to the decoder.
const (
	chunkHead = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`
	chunkKind = `","update":{"sessionUpdate":"`
	chunkText = `","content":{"type":"text","text":"`
	// chunkMessage precedes the text from agents that name their messages.
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
	if !ok || !nativejson.Plain(session) {
		return "", "", "", false
	}
	kind, rest, ok = strings.Cut(rest, chunkText)
	kind, message, named := strings.Cut(kind, chunkMessage)
	if !ok || kind != saidKind && kind != thoughtKind {
		return "", "", "", false
	}
	if message, ok = nativejson.Unquote(message); named && !ok {
		return "", "", "", false
	}
	body, ok := strings.CutSuffix(rest, chunkTail)
	if !ok {
		return "", "", "", false
	}
	text, ok = nativejson.Unquote(body)
	return kind, message, text, ok
}
