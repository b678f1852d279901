package summary

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
)

func said(payloads ...event.Payload) Summary {
	t := New("")
	for _, p := range payloads {
		t.Add(event.Event{Payload: p, Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}})
	}
	return t
}

func text(id string, status event.BlockStatus, content string) event.BlockUpsert {
	return event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockAssistantText, Status: status, Content: &content}}
}

func loses(id string) event.BlockUpsert {
	return event.BlockUpsert{Block: event.Block{
		ID: id, Type: event.BlockAssistantText, Status: event.StatusError, Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
	}}
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
		"the cut one lost":  {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "a", Delta: "on"}, text("b", complete, "two"), loses("a")}, "two"},
		"the last one lost": {[]event.Payload{text("a", complete, "one"), text("b", pending, "tw"), loses("b")}, ""},
		"other's deltas":    {[]event.Payload{text("a", pending, ""), event.BlockDelta{BlockID: "z", Delta: "no"}, event.BlockDelta{BlockID: "a", Delta: "one"}}, "one"},
		"then a tool":       {[]event.Payload{text("a", complete, "one"), event.BlockUpsert{Block: event.Block{ID: "t", Type: event.BlockToolUse, Status: complete}}}, "one"},
	} {
		heard := said(c.heard...)
		require.Equal(t, c.want, heard.Result().Response, name)
	}
}

func TestSummaryHearsMainOnly(t *testing.T) {
	t.Parallel()
	told := New("anchor")
	told.Add(event.Event{Payload: text("sub", event.StatusComplete, "inner"), Context: event.Context{ConversationID: "toolu_1"}})
	require.Empty(t, told.Result().Response)
	require.Equal(t, "anchor", told.Last())
	require.Equal(t, "assistant text: inner", told.LastBlock, "the last block may be a subagent's")
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
	short := brief.Shorten(exact.Result(), 2<<10)
	require.True(t, short.Truncated)
	require.Equal(t, "a", short.ResponseBlockID)

	deltas := said(text("a", event.StatusPending, ""))
	for range MaxResponse {
		deltas.Add(event.Event{Payload: event.BlockDelta{BlockID: "a", Delta: "0123456789"}})
	}
	require.LessOrEqual(t, len(deltas.Result().Response), MaxResponse+len("…"))
	require.LessOrEqual(t, deltas.text.Len(), MaxResponse+10, "the text is bounded")
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

// An upsert that only has a call's usage is no new text.
func TestSummaryUsageIsNoText(t *testing.T) {
	t.Parallel()
	took := event.BlockUpsert{Block: event.Block{ID: "a", Type: event.BlockAssistantText, Usage: &event.Usage{OutputTokens: 20}}}
	s := said(text("a", event.StatusComplete, "first"), text("b", event.StatusComplete, "second"), took, event.SessionIdle{})
	require.Equal(t, "second", s.Result().Response)
	require.Equal(t, "b", s.Result().ResponseBlockID)
	require.Equal(t, "b", s.Last(), "the order is as it was")
}
