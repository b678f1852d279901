package brief_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
)

func TestSummaryLastBlockInWords(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]event.Block{
		`Bash {"command":"ls"}`: {Type: event.BlockToolUse, ToolName: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
		"result: done":          {Type: event.BlockToolResult, Output: json.RawMessage(`"done"`)},
		"subagent look: around": {Type: event.BlockSubagent, Name: "look", Description: "around"},
		"thinking: hm":          {Type: event.BlockThinking, Content: new("hm")},
		"error: no":             {Type: event.BlockError, Message: new("no")},
		"as before":             {Type: event.BlockAssistantText, Content: new("")},
	} {
		require.Equal(t, want, brief.Describe(b, "as before"))
	}
	long := brief.Describe(event.Block{Type: event.BlockThinking, Content: new(strings.Repeat("x", 1000))}, "")
	require.LessOrEqual(t, len(long), 160+len("…"))
}

// Truncate never splits a rune, and keeps what is before and after invalid UTF-8: an agent
// that dies may print anything.
func TestTruncate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", brief.Truncate("abc", 3))
	require.Equal(t, "ab…", brief.Truncate("abc", 2))
	require.Equal(t, "…", brief.Truncate("ä", 1))
	require.Equal(t, "ä…", brief.Truncate("äö", 3))
	require.Equal(t, "a…", brief.Truncate("a\U0001F600", 4))
	require.Equal(t, "…", brief.Truncate("abc", 0))
	require.Equal(t, "\xffabc…", brief.Truncate("\xffabcdef", 4))
	require.Equal(t, "ab\x80\x80\x80\x80…", brief.Truncate("ab\x80\x80\x80\x80\x80", 6))
}

func FuzzTruncate(f *testing.F) {
	f.Add("äö\U0001F600", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		got := brief.Truncate(s, n)
		if len(s) <= n {
			require.Equal(t, s, got)
			return
		}
		kept, ok := strings.CutSuffix(got, "…")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(s, kept))
		require.LessOrEqual(t, len(kept), n)
		require.Greater(t, len(kept), n-utf8.UTFMax, "at most one rune is dropped")
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(got))
		}
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", brief.End("short", 10))
	require.Equal(t, "end", brief.End("the end", 3))
	require.Equal(t, "x", brief.End("éx", 2), "no half rune")
}
