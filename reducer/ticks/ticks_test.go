package ticks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/ticks"
)

func in(conversation string, p event.Payload) event.Event {
	return event.Event{Payload: p, Context: event.Context{ConversationID: conversation}}
}

func TestCountsCallsOfTheMainConversation(t *testing.T) {
	t.Parallel()
	var c ticks.Counter
	c.Add(in(event.Main, event.MetadataUpdate{Usage: &event.Usage{OutputTokens: 1}}))
	require.Nil(t, c.Ticks, "unknown, not 0")
	require.Zero(t, c.Done())
	c.Add(in(event.Main, event.MetadataUpdate{Calls: 1}))
	c.Add(in("a-subagent", event.MetadataUpdate{Calls: 1}))
	require.Equal(t, 1, *c.Ticks)
	require.Zero(t, c.Done(), "the call is running")
	first := c.Ticks
	c.Add(in(event.Main, event.MetadataUpdate{Calls: 1}))
	require.Equal(t, 2, *c.Ticks)
	require.Equal(t, 1, c.Done())
	require.Equal(t, 1, *first, "who has it may keep it")
}

func TestKeepsTheLastTools(t *testing.T) {
	t.Parallel()
	var c ticks.Counter
	for i := range ticks.MaxTools + 1 {
		c.Add(in(event.Main, event.BlockUpsert{Block: event.Block{
			ID: fmt.Sprint(i), Type: event.BlockToolUse, ToolUseID: fmt.Sprint(i), ToolName: "bash", Input: json.RawMessage(`{"n":` + fmt.Sprint(i) + `}`),
		}}))
	}
	failed := true
	for _, id := range []string{"0", "1"} {
		c.Add(in(event.Main, event.BlockUpsert{Block: event.Block{
			ID: id + ":r", Type: event.BlockToolResult, ToolUseID: id, Output: json.RawMessage(`"no\nsuch file"`), IsError: &failed,
		}}))
	}
	require.Len(t, c.Tools, ticks.MaxTools)
	out := "no such file"
	require.Equal(t, ticks.Tool{ToolUseID: "1", Name: "bash", Input: `{"n":1}`, Output: &out, IsError: true}, c.Tools[0])
	require.Nil(t, c.Tools[1].Output)
	c.Add(in(event.Main, event.BlockUpsert{Block: event.Block{
		ID: "1:r", Type: event.BlockToolResult, ToolUseID: "1", Output: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`),
	}}))
	require.LessOrEqual(t, len(*c.Tools[0].Output), ticks.MaxLine+len("…"))
}
