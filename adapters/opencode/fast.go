package opencode

import (
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// Most of a server's events are pieces of texts, and events that are not part of
// the conversation. Both are recognised by the server's way of writing them, and
// read without the decoder; a line written differently goes to it.

// eventHead is the beginning of each event.
const eventHead = `{"id":"evt_`

// fastType returns the type of an event as the server writes it: behind the id.
func fastType(line string) string {
	rest, found := strings.CutPrefix(line, eventHead)
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
	rest, found := strings.CutPrefix(line, eventHead)
	if !found {
		return p, false
	}
	for _, next := range []struct {
		into  *string
		until string
	}{{new(string), `","type":"message.part.delta","properties":{"sessionID":"`}, {&p.SessionID, `","messageID":"`}, {new(string), `","partID":"`}, {&p.PartID, `","field":"`}, {&p.Field, `","delta":"`}} {
		if *next.into, rest, ok = plainUntil(rest, next.until); !ok {
			return p, false
		}
	}
	inside, found := strings.CutSuffix(rest, `"}}`)
	if !found {
		return p, false
	}
	p.Delta, ok = nativejson.Unquote(inside)
	return p, ok
}

// plainUntil splits off a text that needs no decoding.
func plainUntil(text, until string) (before, rest string, ok bool) {
	before, rest, ok = strings.Cut(text, until)
	return before, rest, ok && nativejson.Plain(before)
}
