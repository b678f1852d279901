package turn

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func said(payloads ...event.Payload) Summary {
	t := NewSummary("")
	for _, p := range payloads {
		t.Add(event.Event{Payload: p, Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}})
	}
	return t
}

func text(id string, status event.BlockStatus, content string) event.BlockUpsert {
	return event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockAssistantText, Status: status, Content: &content}}
}

func TestSummaryResponse(t *testing.T) {
	t.Parallel()
	pending, complete := event.StatusPending, event.StatusComplete
	for name, c := range map[string]struct {
		heard []event.Payload
		want  string
	}{
		"nothing":           {nil, ""},
		"deltas":            {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "a", Delta: "on"}, event.BlockDelta{BlockID: "a", Delta: "e"}}, "one"},
		"complete block":    {[]event.Payload{text("a", complete, "one")}, "one"},
		"deltas, then all":  {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "a", Delta: "on"}, text("a", complete, "one")}, "one"},
		"completed by name": {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "a", Delta: "one"}, event.BlockUpsert{Block: event.Block{ID: "a", Type: event.BlockAssistantText, Status: complete}}}, "one"},
		"the last one":      {[]event.Payload{text("a", complete, "one"), text("b", complete, "two")}, "two"},
		"other's deltas":    {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "z", Delta: "no"}, event.BlockDelta{BlockID: "a", Delta: "one"}}, "one"},
		"then a tool":       {[]event.Payload{text("a", complete, "one"), event.BlockUpsert{Block: event.Block{ID: "t", Type: event.BlockToolUse, Status: complete}}}, "one"},
	} {
		heard := said(c.heard...)
		require.Equal(t, c.want, heard.Result().Response, name)
	}
}

func TestSummaryHearsMainOnly(t *testing.T) {
	t.Parallel()
	told := NewSummary("anchor")
	told.Add(event.Event{Payload: text("sub", event.StatusComplete, "inner"), Context: event.Context{ConversationID: "toolu_1"}})
	require.Empty(t, told.Result().Response)
	require.Equal(t, "anchor", told.Last())
	require.Equal(t, "assistant text: inner", told.LastBlock, "people see what goes on inside too")
}

func TestSummaryLimits(t *testing.T) {
	t.Parallel()
	whole := said(text("a", event.StatusComplete, strings.Repeat("ä", MaxResponse)))
	require.LessOrEqual(t, len(whole.Result().Response), MaxResponse+len("…"))
	require.True(t, utf8.ValidString(whole.Result().Response))
	require.Equal(t, 1, strings.Count(whole.Result().Response, "…"))
	require.True(t, whole.Result().Truncated)
	require.Equal(t, "a", whole.Result().ResponseBlockID)
	exact := said(text("a", event.StatusComplete, strings.Repeat("x", MaxResponse)))
	require.False(t, exact.Result().Truncated)
	require.Len(t, exact.Result().Response, MaxResponse)
	short := Shorten(exact.Result(), 2<<10)
	require.True(t, short.Truncated)
	require.Equal(t, "a", short.ResponseBlockID)

	deltas := said(text("a", event.StatusPending, ""))
	for range MaxResponse {
		deltas.Add(event.Event{Payload: event.BlockDelta{BlockID: "a", Delta: "0123456789"}})
	}
	require.LessOrEqual(t, len(deltas.Result().Response), MaxResponse+len("…"))
	require.LessOrEqual(t, deltas.text.Len(), MaxResponse+10, "no more is kept")
	require.Equal(t, MaxResponse, deltas.Deltas)

	var errs Summary
	for range 100 {
		errs.Add(event.Event{Payload: event.Log{Level: "error", Message: strings.Repeat("e", 100)}})
		errs.Add(event.Event{Payload: event.Log{Level: "info", Message: "no"}})
	}
	require.LessOrEqual(t, len(errs.Stderr), 2000+len("…"))
	require.NotContains(t, errs.Stderr, "no")
}

func TestSummarySums(t *testing.T) {
	t.Parallel()
	cost, usage := 0.25, event.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4}
	m := event.MetadataUpdate{Usage: &usage, CostUSD: &cost}
	got := said(m, event.MetadataUpdate{Model: "m"}, m)
	require.Equal(t, usage.Add(usage), got.Usage)
	require.InDelta(t, 0.5, *got.CostUSD, 1e-12)
	require.Equal(t, 3, got.Events)
}

func TestSummaryLastBlockInWords(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]event.Block{
		`Bash {"command":"ls"}`: {Type: event.BlockToolUse, ToolName: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
		"result: done":          {Type: event.BlockToolResult, Output: json.RawMessage(`"done"`)},
		"subagent look: around": {Type: event.BlockSubagent, Name: "look", Description: "around"},
		"thinking: hm":          {Type: event.BlockThinking, Content: event.Text("hm")},
		"error: no":             {Type: event.BlockError, Message: event.Text("no")},
		"as before":             {Type: event.BlockAssistantText, Content: event.Text("")},
	} {
		require.Equal(t, want, Describe(b, "as before"))
	}
	long := Describe(event.Block{Type: event.BlockThinking, Content: event.Text(strings.Repeat("x", 1000))}, "")
	require.LessOrEqual(t, len(long), 160+len("…"))
}

// cut never tears a rune, and keeps what comes before bytes that are no text
// and behind them: what an agent prints when it dies may be anything.
func TestCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", Truncate("abc", 3))
	require.Equal(t, "ab…", Truncate("abc", 2))
	require.Equal(t, "…", Truncate("ä", 1))
	require.Equal(t, "ä…", Truncate("äö", 3))
	require.Equal(t, "a…", Truncate("a\U0001F600", 4))
	require.Equal(t, "…", Truncate("abc", 0))
	require.Equal(t, "\xffabc…", Truncate("\xffabcdef", 4))
	require.Equal(t, "ab\x80\x80\x80\x80…", Truncate("ab\x80\x80\x80\x80\x80", 6))
}

func FuzzCut(f *testing.F) {
	f.Add("äö\U0001F600", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		got := Truncate(s, n)
		if len(s) <= n {
			require.Equal(t, s, got)
			return
		}
		kept, ok := strings.CutSuffix(got, "…")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(s, kept))
		require.LessOrEqual(t, len(kept), n)
		require.Greater(t, len(kept), n-utf8.UTFMax, "no more is dropped than a rune")
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(got))
		}
	})
}

func TestLastBytesKeepsTheEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", lastBytes("short", 10))
	require.Equal(t, "end", lastBytes("the end", 3))
	require.Equal(t, "x", lastBytes("éx", 2), "no half rune")
}
