package older

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// turn is an execution of two model calls with a tool between them, and a subagent.
func turn() []event.Payload {
	yes := false
	return []event.Payload{
		event.QueryStarted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}},
		event.BlockUpsert{Block: event.Block{ID: "m1", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: new("look")}},
		event.MetadataUpdate{Calls: 1, Model: "big"},
		event.BlockUpsert{Block: event.Block{ID: "b0", Type: event.BlockThinking, Status: event.StatusPending}},
		event.BlockDelta{BlockID: "b0", Delta: "hm"},
		event.BlockUpsert{Block: event.Block{ID: "b0", Type: event.BlockThinking, Status: event.StatusComplete}},
		event.BlockUpsert{Block: event.Block{ID: "t1", Type: event.BlockToolUse, Status: event.StatusPending, ToolName: "bash", ToolUseID: "call_1"}},
		event.PermissionRequested{RequestID: "r1", ToolName: "bash", ToolUseID: "call_1", Input: json.RawMessage(`{"command":"ls"}`)},
		event.PermissionResolved{RequestID: "r1", Decision: "allow"},
		event.BlockUpsert{Block: event.Block{ID: "t1", Type: event.BlockToolUse, Status: event.StatusComplete, ToolUseID: "call_1", Input: json.RawMessage(`{"command":"ls"}`)}},
		event.BlockUpsert{Block: event.Block{ID: "t1:result", Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: "call_1", Output: json.RawMessage(`"a.txt"`), IsError: &yes}},
		event.SubagentSpawned{ToolUseID: "s1", Prompt: "count", Description: "counting"},
		event.SubagentCompleted{ToolUseID: "s1", Status: event.SubagentCompletedOK, Output: new("2")},
		event.MetadataUpdate{Usage: &event.Usage{InputTokens: 10, OutputTokens: 2}},
		event.MetadataUpdate{Calls: 1},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusPending}},
		event.BlockDelta{BlockID: "b1", Delta: "one "},
		event.BlockDelta{BlockID: "b1", Delta: "file"},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusComplete}},
		event.MetadataUpdate{Usage: &event.Usage{InputTokens: 20, OutputTokens: 3}},
		event.QueryCompleted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}, Result: &event.QueryResult{Response: "one file", Usage: event.Usage{InputTokens: 30, OutputTokens: 5}}}},
		event.BlockUpsert{Block: event.Block{ID: "e", Type: event.BlockError, Status: event.StatusComplete, Message: new("no credit"), Code: "402"}},
		event.Error{ErrorInfo: event.ErrorInfo{Message: "a fault"}},
		event.SessionIdle{},
	}
}

// The third system's names: each thing is a start, its deltas, an end and the whole of it.
func TestR75ThirdNames(t *testing.T) {
	t.Parallel()
	o, err := New("v3")
	require.NoError(t, err)
	var names []event.Type
	payloads := map[event.Type][]map[string]any{}
	for i, p := range turn() {
		c := event.Context{SessionID: "s", ConversationID: event.Main, Seq: uint64(i + 1), Timestamp: time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)}
		events, err := o.Events(event.Event{Payload: p, Context: c})
		require.NoError(t, err)
		for _, ev := range events {
			require.Equal(t, c, ev.Context)
			names = append(names, ev.Type())
			raw, ours := ev.Payload.(event.Unknown)
			if !ours {
				continue
			}
			var f map[string]any
			require.NoError(t, json.Unmarshal(raw.Raw, &f))
			require.Equal(t, string(ev.Type()), f["type"])
			require.EqualValues(t, i+1, f["sequence"])
			require.Equal(t, "s", f["sessionId"])
			payloads[ev.Type()] = append(payloads[ev.Type()], f)
		}
	}
	require.Equal(t, []event.Type{
		"execution_start", "entry_committed",
		"tick_start", "message_start", "reasoning_start", "reasoning_delta", "reasoning_end", "reasoning", "entry_committed",
		"tool_call_start", "tool_confirmation_required", "tool_confirmation_result", "tool_call_end", "tool_call", "entry_committed",
		"tool_result", "entry_committed", "spawn_start", "spawn_end", "usage", "context_update",
		"message_end", "message", "tick_end", "tick",
		"tick_start", "message_start", "content_start", "content_delta", "content_delta", "content_end", "content", "entry_committed", "usage", "context_update",
		"message_end", "message", "tick_end", "tick", "result", "execution_end", "execution",
		"error", "engine_error", event.TypeOf(event.SessionIdle{}),
	}, names)
	first := func(name event.Type) map[string]any { return payloads[name][0] }
	require.Equal(t, "hm", first("reasoning")["reasoning"], "a later event need not repeat what the deltas said")
	require.Equal(t, map[string]any{"type": "text", "text": "one file"}, first("content")["content"])
	require.Equal(t, map[string]any{"command": "ls"}, first("tool_call")["input"])
	require.Equal(t, "bash", first("tool_call")["name"])
	require.Equal(t, "bash", first("tool_result")["name"])
	require.Equal(t, "call_1", first("tool_confirmation_required")["callId"])
	require.Equal(t, true, first("tool_confirmation_result")["confirmed"])
	require.Equal(t, "call_1", first("tool_confirmation_result")["callId"])
	require.Equal(t, "count", first("spawn_start")["input"])
	require.Equal(t, map[string]any{"inputTokens": 10., "outputTokens": 2., "totalTokens": 12.}, payloads["tick"][0]["usage"])
	require.EqualValues(t, 1, payloads["tick"][0]["tick"])
	require.EqualValues(t, 2, payloads["tick"][1]["tick"])
	require.Equal(t, "big", first("message_start")["model"])
	require.Len(t, payloads["message"][0]["message"].(map[string]any)["content"], 2)
	require.Equal(t, "one file", first("execution")["output"])
	require.EqualValues(t, 2, first("execution")["ticks"])
	require.Equal(t, []any{0., 1., 2., 3., 4.}, func() (all []any) {
		for _, f := range payloads["entry_committed"] {
			all = append(all, f["timelineIndex"])
		}
		return all
	}())
	interrupted, err := o.Events(event.Event{Payload: event.QueryInterrupted{Query: event.Query{ExecutionID: "x2"}}})
	require.NoError(t, err)
	last := interrupted[slices.IndexFunc(interrupted, func(ev event.Event) bool { return ev.Type() == "execution_end" })]
	require.Contains(t, string(last.Payload.(event.Unknown).Raw), `"aborted":true`)
}
