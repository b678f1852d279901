package reducer

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestR60BlockUpsert(t *testing.T) {
	t.Parallel()
	created := upsertOf(event.Block{ID: "b", Type: event.BlockAssistantText, Content: new("one"), Model: "opus"})
	b := only(t, fold(t, created, upsertOf(event.Block{ID: "b", Type: event.BlockAssistantText, Status: event.StatusComplete})))
	require.Equal(t, "one opus complete", *b.Content+" "+b.Model+" "+string(b.Status), "known: merged")
	require.Empty(t, fold(t, upsertOf(event.Block{Type: event.BlockSystem})).Blocks, "id required")
	require.Empty(t, fold(t, upsertOf(event.Block{ID: "b"})).Blocks, "type required")
}

func TestR61BlockDelta(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t, textBlock("b"), event.BlockDelta{BlockID: "b", Delta: "a"}, event.BlockDelta{BlockID: "b", Delta: "b"}))
	require.Equal(t, "ab", *b.Content)
}

func TestR63SubagentSpawned(t *testing.T) {
	t.Parallel()
	s := fold(t, event.SubagentSpawned{ToolUseID: "t1", AgentID: "a1", Prompt: "p", SubagentType: "scout", Description: "d"})
	require.Equal(t, Subagent{ToolUseID: "t1", AgentID: "a1", Status: event.ExecutionRunning, Prompt: "p"}, s.Subagents[0])
	require.Equal(t, "scout d", s.Blocks[0].Name+" "+s.Blocks[0].Description)
}

func TestR64SubagentCompleted(t *testing.T) {
	t.Parallel()
	s := fold(t, event.SubagentSpawned{ToolUseID: "t1"},
		event.SubagentCompleted{ToolUseID: "t1", AgentID: "a1", Status: event.SubagentCompletedOK, Output: new("o"), DurationMS: new(int64(3))})
	sub := s.Subagents[0]
	require.Equal(t, "a1 success o", sub.AgentID+" "+string(sub.Status)+" "+*sub.Output)
	require.Equal(t, int64(3), *sub.DurationMS)
}

func TestR65SessionIdle(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{
		in("main", upsertOf(event.Block{ID: "b", Type: event.BlockToolUse})),
		in("t1", upsertOf(event.Block{ID: "b", Type: event.BlockToolUse})),
		in("main", event.SessionIdle{}),
	})
	require.Equal(t, event.StatusComplete, s.Blocks[0].Status)
	require.Equal(t, event.StatusPending, s.Subagents[0].Blocks[0].Status)
	s = Reduce(s, in("t1", event.SessionIdle{}))
	require.Equal(t, event.StatusComplete, s.Subagents[0].Blocks[0].Status)
}

func TestR76UnhandledEventGivesTheSameState(t *testing.T) {
	t.Parallel()
	s := fold(t, textBlock("b"), event.SubagentSpawned{ToolUseID: "t1"})
	for _, p := range []event.Payload{event.Log{}, event.QueryStarted{}, event.Native{}, event.Unknown{Name: "new:thing"}, event.SessionClosed{}, nil} {
		require.True(t, s.Same(Reduce(s, event.Event{Payload: p})), "%T", p)
	}
	require.False(t, s.Same(Reduce(s, in("main", textBlock("c")))))
}

func TestR77CreateDefaults(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t, upsertOf(event.Block{ID: "b", Type: event.BlockAssistantText})))
	require.Equal(t, "", *b.Content)
	require.Equal(t, event.StatusPending, b.Status)
	b = only(t, fold(t, upsertOf(event.Block{ID: "b", Type: event.BlockToolUse})))
	require.Equal(t, `{}`, string(b.Input))
	b = only(t, fold(t, upsertOf(event.Block{ID: "b", Type: event.BlockToolResult})))
	require.Equal(t, `null`, string(b.Output))
	require.False(t, *b.IsError)
}

func TestR77TimestampIsTheEventsNeverAClocks(t *testing.T) {
	t.Parallel()
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	e := event.Event{Payload: textBlock("b"), Context: event.Context{Timestamp: at}}
	require.Equal(t, at, Reduce(State{}, e).Blocks[0].Timestamp)
	e.Context.Timestamp = time.Time{}
	require.True(t, Reduce(State{}, e).Blocks[0].Timestamp.IsZero())
}

func TestR78UpsertToUnknownConversation(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{in("toolu_1", textBlock("b"))})
	require.Empty(t, s.Blocks)
	require.Equal(t, "toolu_1", s.Subagents[0].ToolUseID)
	require.Equal(t, event.ExecutionRunning, s.Subagents[0].Status)
	require.Len(t, s.Subagents[0].Blocks, 1)
}

func TestR79DeltasThatChangeNothing(t *testing.T) {
	t.Parallel()
	s := fold(t, textBlock("text"), upsertOf(event.Block{ID: "tool", Type: event.BlockToolUse}))
	for name, e := range map[string]event.Event{
		"empty delta":           in("main", event.BlockDelta{BlockID: "text"}),
		"unknown block":         in("main", event.BlockDelta{BlockID: "other", Delta: "x"}),
		"unknown conversation":  in("t1", event.BlockDelta{BlockID: "text", Delta: "x"}),
		"block without content": in("main", event.BlockDelta{BlockID: "tool", Delta: "x"}),
	} {
		require.True(t, s.Same(Reduce(s, e)), name)
		b := NewBuilder(s)
		b.Add(e)
		require.True(t, s.Same(b.State()), name)
	}
}

func TestR80SpawnedRules(t *testing.T) {
	t.Parallel()
	spawn := in("main", event.SubagentSpawned{ToolUseID: "t1", Prompt: "p"})
	s := requireAgreement(t, []event.Event{spawn})
	require.Equal(t, "subagent-block-t1", s.Blocks[0].ID)
	require.Equal(t, event.ExecutionRunning, s.Subagents[0].Status)
	require.True(t, s.Same(Reduce(s, spawn)), "idempotent")
	named := Reduce(s, in("main", event.SubagentSpawned{ToolUseID: "t1", AgentID: "a1"}))
	require.Equal(t, "a1", named.Subagents[0].AgentID, "fills agentId")
	require.Equal(t, "agent-a1", named.Blocks[0].SubagentID)
	nested := requireAgreement(t, []event.Event{spawn, in("t1", event.SubagentSpawned{ToolUseID: "t2"}), in("nowhere", event.SubagentSpawned{ToolUseID: "t3"})})
	require.Equal(t, "subagent-block-t2", nested.Conversation("t1")[0].ID, "in the parent conversation")
	require.Equal(t, "subagent-block-t3", nested.Blocks[1].ID, "unknown parent: main")
}

func TestR81CompletedRules(t *testing.T) {
	t.Parallel()
	for result, want := range map[event.SubagentResult][2]string{
		event.SubagentCompletedOK: {"complete", "success"}, event.SubagentFailed: {"error", "error"},
	} {
		s := requireAgreement(t, []event.Event{
			in("main", event.SubagentSpawned{ToolUseID: "t1"}), in("t1", event.SubagentSpawned{ToolUseID: "t2"}),
			in("main", event.SubagentCompleted{ToolUseID: "t1", AgentID: "a1", Status: result}),
			in("main", event.SubagentCompleted{ToolUseID: "t2", AgentID: "a2", Status: result}),
		})
		for _, b := range []event.Block{s.Blocks[0], s.Conversation("t1")[0]} {
			require.Equal(t, want, [2]string{string(b.Status), string(b.Execution)}, "searched in main, then in the subagents")
		}
		require.Equal(t, "agent-a1", s.Blocks[0].SubagentID)
		require.Equal(t, want[1], string(s.Subagents[0].Status))
	}
}

func TestR81CompletionBeforeSpawn(t *testing.T) {
	t.Parallel()
	s := fold(t, event.SubagentCompleted{ToolUseID: "t1", Status: event.SubagentFailed})
	require.Equal(t, event.ExecutionError, s.Subagents[0].Status)
	require.Empty(t, s.Blocks)
	s = fold(t, event.SubagentCompleted{ToolUseID: "t1", Status: event.SubagentFailed}, event.SubagentSpawned{ToolUseID: "t1", Prompt: "p"})
	require.Equal(t, event.ExecutionError, s.Subagents[0].Status, "a late spawn resurrects nothing")
	require.Equal(t, event.StatusError, s.Blocks[0].Status)
}

func TestR82IdleRules(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{
		in("main", textBlock("empty")), in("main", upsertOf(event.Block{ID: "idea", Type: event.BlockThinking})),
		in("main", textBlock("said")), in("main", event.BlockDelta{BlockID: "said", Delta: "x"}),
		in("main", upsertOf(event.Block{ID: "torn", Type: event.BlockAssistantText, Status: event.StatusError, Content: new("y")})),
		in("t1", textBlock("empty")), in("main", event.SessionIdle{}),
	})
	require.Len(t, s.Blocks, 2)
	require.Equal(t, "said complete", s.Blocks[0].ID+" "+string(s.Blocks[0].Status))
	require.Equal(t, event.StatusError, s.Blocks[1].Status)
	require.Equal(t, event.StatusPending, s.Conversation("t1")[0].Status, "only for that conversation")
}

func TestR83LookupOrder(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{
		in("main", event.SubagentSpawned{ToolUseID: "t1", AgentID: "x"}),
		in("main", event.SubagentSpawned{ToolUseID: "x"}),
		in("main", event.SubagentCompleted{ToolUseID: "x", Status: event.SubagentCompletedOK}),
		in("main", event.SubagentSpawned{ToolUseID: "t2", AgentID: "a2"}),
		in("a2", textBlock("b")),
	})
	require.Equal(t, event.ExecutionRunning, s.Subagents[0].Status)
	require.Equal(t, event.ExecutionSuccess, s.Subagents[1].Status, "toolUseId first")
	require.Len(t, s.Subagents[2].Blocks, 1, "then agentId")
}

// Native threads and child sessions are in one tree and distinguishable.
func TestR84AndChildSessionsAreToldApart(t *testing.T) {
	t.Parallel()
	s := fold(t, event.SubagentSpawned{ToolUseID: "t1"}, event.SubagentSpawned{ToolUseID: "t2", ChildSessionID: "child"})
	require.True(t, s.Subagents[0].Native())
	require.False(t, s.Subagents[1].Native())
	require.Equal(t, "child", s.Subagents[1].ChildSessionID)
}

func TestEmptyStateIsLists(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"blocks":[],"subagents":[]}`, encode(t, State{}))
	require.Equal(t, `{"blocks":[],"subagents":[]}`, encode(t, new(Builder).State()))
	require.JSONEq(t, `{"blocks":[],"subagents":[{"toolUseId":"t1","status":"running","prompt":"","blocks":[]}]}`,
		encode(t, State{Subagents: []Subagent{{ToolUseID: "t1", Status: event.ExecutionRunning}}}))
}

func TestServerBlocksKeepTheirSource(t *testing.T) {
	t.Parallel()
	e := in("main", upsertOf(event.Block{ID: "b", Type: event.BlockError}))
	e.Context.Source = event.SourceServer
	s := requireAgreement(t, []event.Event{e, in("main", upsertOf(event.Block{ID: "b", Code: "c"}))})
	require.Equal(t, event.SourceServer, s.Blocks[0].Source)
	require.JSONEq(t, `{"id":"b","type":"error","status":"pending","source":"server","message":"","code":"c"}`, string(must(json.Marshal(s.Blocks[0]))))
}
