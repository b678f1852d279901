package reducer

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
)

// The tests of this file assert the rows of the requirements on blocks by number;
// requirements_rules_test.go has those on the rules.

// fold returns the state after some payloads in main, checked against all folds.
func fold(t *testing.T, payloads ...event.Payload) State {
	t.Helper()
	var events []event.Event
	for i, p := range payloads {
		e := in(event.Main, p)
		e.Context.Timestamp = time.UnixMilli(int64(i)).UTC()
		events = append(events, e)
	}
	return requireAgreement(t, events)
}

func only(t *testing.T, s State) event.Block {
	t.Helper()
	require.Len(t, s.Blocks, 1)
	return s.Blocks[0]
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

func TestR48BlocksAreAtomic(t *testing.T) {
	t.Parallel()
	s := fold(t,
		upsertOf(event.Block{ID: "text", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("I'll look")}),
		upsertOf(event.Block{ID: "tool", Type: event.BlockToolUse, Execution: event.ExecutionRunning}))
	require.Equal(t, event.StatusComplete, s.Blocks[0].Status, "the text is final while its turn continues")
	require.Equal(t, event.StatusPending, s.Blocks[1].Status)
	next := Reduce(s, in(event.Main, upsertOf(event.Block{ID: "tool", Execution: event.ExecutionSuccess})))
	require.Equal(t, s.Blocks[0], next.Blocks[0], "a block changes alone")
}

func TestR49UserMessage(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t, upsertOf(event.Block{ID: "u", Type: event.BlockUserMessage, Content: new("hi")})))
	require.Equal(t, "hi", *b.Content)
	parts := []event.Part{{Type: "text", Text: "see"}, {Type: "image", MediaType: "image/png", Data: "AA=="}, {Type: "image", URL: "https://example.com/a.png"}}
	b = only(t, fold(t, upsertOf(event.Block{ID: "u", Type: event.BlockUserMessage, Parts: parts})))
	require.Equal(t, parts, b.Parts)
	b = only(t, fold(t, upsertOf(event.Block{ID: "u", Type: event.BlockUserMessage}), upsertOf(event.Block{ID: "u", Parts: parts})))
	require.Equal(t, parts, b.Parts, "later parts are merged")
}

func TestR50AssistantText(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t,
		upsertOf(event.Block{ID: "a", Type: event.BlockAssistantText, Model: "opus"}),
		event.BlockDelta{BlockID: "a", Delta: "Hel"}, event.BlockDelta{BlockID: "a", Delta: "lo"}))
	require.Equal(t, "Hello", *b.Content)
	require.Equal(t, "opus", b.Model)
}

func TestR51ToolUse(t *testing.T) {
	t.Parallel()
	use := event.Block{ID: "t", Type: event.BlockToolUse, ToolName: "Bash", ToolUseID: "t", Input: json.RawMessage(`{"command":"ls"}`)}
	payloads := []event.Payload{upsertOf(use)}
	for _, want := range []event.Execution{event.ExecutionPending, event.ExecutionRunning, event.ExecutionSuccess, event.ExecutionError} {
		payloads = append(payloads, upsertOf(event.Block{ID: "t", Execution: want}))
		b := only(t, fold(t, payloads...))
		require.Equal(t, want, b.Execution)
		require.Equal(t, "Bash t {\"command\":\"ls\"}", fmt.Sprint(b.ToolName, " ", b.ToolUseID, " ", string(b.Input)))
	}
}

func TestR52ToolResult(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t, upsertOf(event.Block{ID: "r", Type: event.BlockToolResult, ToolUseID: "t",
		Output: json.RawMessage(`"no such file"`), IsError: new(true), DurationMS: new(int64(12))})))
	require.Equal(t, `"no such file"`, string(b.Output))
	require.True(t, *b.IsError)
	require.Equal(t, int64(12), *b.DurationMS)
	require.Equal(t, "t", b.ToolUseID)
}

func TestR53Thinking(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t,
		upsertOf(event.Block{ID: "a", Type: event.BlockThinking}), event.BlockDelta{BlockID: "a", Delta: "hm"},
		upsertOf(event.Block{ID: "a", Summary: new("Weighing")})))
	require.Equal(t, "hm", *b.Content)
	require.Equal(t, "Weighing", *b.Summary)
}

func TestR54System(t *testing.T) {
	t.Parallel()
	for _, subtype := range strings.Fields("session_start session_end error status hook_response auth_status log") {
		b := only(t, fold(t, upsertOf(event.Block{ID: "s", Type: event.BlockSystem, Subtype: subtype, Message: new("m")})))
		require.Equal(t, subtype, b.Subtype)
		require.Equal(t, "m", *b.Message)
	}
}

func TestR55SubagentReferenceBlock(t *testing.T) {
	t.Parallel()
	s := fold(t,
		event.SubagentSpawned{ToolUseID: "t1", AgentID: "7f", Prompt: "Review", SubagentType: "reviewer"},
		event.SubagentCompleted{ToolUseID: "t1", Status: event.SubagentCompletedOK, Output: new("fine"), DurationMS: new(int64(9))})
	b := only(t, s)
	require.Equal(t, event.BlockSubagent, b.Type)
	require.Equal(t, "agent-7f reviewer \"Review\" success \"fine\"",
		fmt.Sprint(b.SubagentID, " ", b.Name, " ", string(b.Input), " ", b.Execution, " ", string(b.Output)))
	require.Equal(t, int64(9), *b.DurationMS)
	require.Len(t, s.Subagents, 1, "the conversation itself is a thread of its own")
}

func TestR56ErrorAndSkillLoad(t *testing.T) {
	t.Parallel()
	s := fold(t,
		upsertOf(event.Block{ID: "e", Type: event.BlockError, Message: new("Overloaded"), Code: "529"}),
		upsertOf(event.Block{ID: "k", Type: event.BlockSkillLoad, SkillName: "pdf", Content: new("# PDF")}))
	require.Equal(t, "529", s.Blocks[0].Code)
	require.Equal(t, "Overloaded", *s.Blocks[0].Message)
	require.Equal(t, "pdf", s.Blocks[1].SkillName)
	require.Equal(t, "# PDF", *s.Blocks[1].Content)
	require.Equal(t, "", *only(t, fold(t, upsertOf(event.Block{ID: "e", Type: event.BlockError}))).Message, "an empty message by default")
}

func TestR57TwoStatuses(t *testing.T) {
	t.Parallel()
	b := only(t, fold(t, upsertOf(event.Block{ID: "t", Type: event.BlockToolUse, Status: event.StatusComplete, Execution: event.ExecutionRunning,
		Metadata: map[string]json.RawMessage{"k": json.RawMessage(`1`)}})))
	require.Equal(t, event.StatusComplete, b.Status, "the block is whole")
	require.Equal(t, event.ExecutionRunning, b.Execution, "while its tool runs")
	m := parse[map[string]any](t, string(must(json.Marshal(b))))
	require.Equal(t, "t", m["id"])
	require.Equal(t, "1970-01-01T00:00:00Z", m["timestamp"], "ISO 8601")
	require.Equal(t, map[string]any{"k": 1.0}, m["metadata"])
	for _, status := range []event.BlockStatus{event.StatusPending, event.StatusComplete, event.StatusError} {
		require.Equal(t, status, only(t, fold(t, upsertOf(event.Block{ID: "t", Type: event.BlockSystem, Status: status}))).Status)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestR58MainHoldsOnlyTheReference(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{
		in("main", event.SubagentSpawned{ToolUseID: "t1", Prompt: "go"}),
		in("t1", textBlock("a")), in("t1", event.BlockDelta{BlockID: "a", Delta: "deep in work"}), in("t1", textBlock("b")),
	})
	require.Len(t, s.Blocks, 1)
	require.Equal(t, "subagent-block-t1", s.Blocks[0].ID)
	require.Len(t, s.Conversation("t1"), 2, "the subagent's is read separately")
	require.Nil(t, s.Conversation("t9"))
}

func TestR74RoutingByConversation(t *testing.T) {
	t.Parallel()
	s := requireAgreement(t, []event.Event{in("", textBlock("x")), in("main", textBlock("y")), in("toolu_1", textBlock("x"))})
	require.Len(t, s.Blocks, 2, "no conversation id means main")
	require.Len(t, s.Conversation("toolu_1"), 1)
}

// Live and restored conversations, from different events, become one state: the stream has
// pending, deltas and complete; the transcript only complete.
func TestR76OneReducerForBothPaths(t *testing.T) {
	t.Parallel()
	stream := State{}
	for e, err := range jsonl.Decode(strings.NewReader(eventsOf(t, "text_streams"))) {
		require.NoError(t, err)
		stream = Reduce(stream, e)
	}
	restored, err := Fold(jsonl.Decode(strings.NewReader(eventsOf(t, "text_restored"))))
	require.NoError(t, err)
	require.Equal(t, encode(t, stream), encode(t, restored))
}

func eventsOf(t *testing.T, story string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + story + ".txtar")
	require.NoError(t, err)
	return string(parseStory(data).section("events").data)
}
