// Package brief abbreviates blocks and texts, for people and for fields of limited size.
package brief

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
)

// Shorten returns r with at most n bytes of its response, and an ellipsis.
func Shorten(r event.QueryResult, n int) event.QueryResult {
	if len(r.Response) > n {
		r.Response, r.Truncated = Truncate(r.Response, n), true
	}
	return r
}

// MaxLine bounds the description of a block, in bytes.
const MaxLine = 160

// Describe returns a line about a block for people; it returns was if the block adds
// nothing to it.
func Describe(b event.Block, was string) string {
	switch {
	case b.Type == event.BlockToolUse && b.ToolName != "":
		return Truncate(fmt.Sprintf("%s %s", b.ToolName, Line(b.Input)), MaxLine)
	case b.Type == event.BlockToolResult:
		return Truncate("result: "+Line(b.Output), MaxLine)
	case b.Type == event.BlockSubagent && b.Name != "":
		return Truncate("subagent "+b.Name+": "+b.Description, MaxLine)
	case hasText(b.Content):
		return Truncate(strings.ReplaceAll(string(b.Type), "_", " ")+": "+*b.Content, MaxLine)
	case hasText(b.Message):
		return Truncate(string(b.Type)+": "+*b.Message, MaxLine)
	}
	return was
}

// Line returns JSON as a text: a string without its quotes.
func Line(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// End returns the last n bytes of a text at most, from the start of a rune on.
func End(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// Truncate shortens text to at most n bytes and an ellipsis, at a rune. Invalid UTF-8 is
// kept.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := n
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if utf8.RuneStart(s[n-back]) {
			if !utf8.FullRuneInString(s[n-back : n]) {
				at = n - back
			}
			break
		}
	}
	return s[:at] + "…"
}

func hasText(s *string) bool { return s != nil && *s != "" }
