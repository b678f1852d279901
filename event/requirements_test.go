package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file assert the rows of the requirements by number, as far as
// they concern the shape of events; those of package reducer assert what the
// events do.

func wire(t *testing.T, e Event) map[string]any {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	return m
}

// requireKeys asserts the wire names of a payload, all of them.
func requireKeys(t *testing.T, p Payload, keys ...string) {
	t.Helper()
	got := wire(t, whole(p))["payload"].(map[string]any)
	var names []string
	for name := range got {
		names = append(names, name)
	}
	require.ElementsMatch(t, keys, names, "%s", TypeOf(p))
}

func TestR59Envelope(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(whole(BlockDelta{BlockID: "b", Delta: "x"}))
	require.NoError(t, err)
	require.Equal(t, `{"type":"block:delta","payload":{"blockId":"b","delta":"x"},"context":{"sessionId":"s",`+
		`"conversationId":"main","source":"runner","timestamp":"2023-11-14T22:13:20.001Z","seq":7}}`, string(data))
}

func TestR60UpsertCarriesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(whole(BlockUpsert{Block: Block{ID: "b", Type: BlockAssistantText, Content: new("")}}).Payload)
	require.NoError(t, err)
	require.Equal(t, `{"block":{"id":"b","type":"assistant_text","content":""}}`, string(data))
}

func TestR61DeltaShape(t *testing.T) {
	t.Parallel()
	requireKeys(t, sample()[TypeOf(BlockDelta{})], "blockId", "delta")
}

func TestR63SpawnedShape(t *testing.T) {
	t.Parallel()
	requireKeys(t, SubagentSpawned{ToolUseID: "t"}, "toolUseId", "prompt")
	requireKeys(t, sample()[TypeOf(SubagentSpawned{})], "toolUseId", "agentId", "prompt", "subagentType", "description", "childSessionId")
}

func TestR64CompletedShape(t *testing.T) {
	t.Parallel()
	requireKeys(t, SubagentCompleted{ToolUseID: "t", Status: SubagentCompletedOK}, "toolUseId", "status")
	requireKeys(t, sample()[TypeOf(SubagentCompleted{})], "toolUseId", "agentId", "status", "output", "durationMs", "childSessionId")
	require.Equal(t, "completed failed", fmt.Sprint(SubagentCompletedOK, " ", SubagentFailed))
}

func TestR66MetadataShape(t *testing.T) {
	t.Parallel()
	requireKeys(t, sample()[TypeOf(MetadataUpdate{})], "total", "usage", "costUSD", "model", "calls", "extra")
	zero := MetadataUpdate{CostUSD: new(float64)}
	requireKeys(t, zero, "costUSD")
}

func TestR67QueryShape(t *testing.T) {
	t.Parallel()
	for _, typ := range []Type{TypeOf(QueryStarted{}), TypeOf(QueryCompleted{}), TypeOf(QueryFailed{}), TypeOf(QueryInterrupted{})} {
		requireKeys(t, sample()[typ], "executionId", "messageIds", "message", "durationMs", "error", "reason", "result")
	}
}

func TestR68EnvironmentShape(t *testing.T) {
	t.Parallel()
	for _, typ := range []Type{"ee:creating", "ee:ready", "ee:terminated", "ee:error", "ee:health_check"} {
		requireKeys(t, sample()[typ], "sandboxId", "host", "provider", "status", "restartCount", "lastHealthCheck", "reason", "message")
	}
}

func TestR69FileShape(t *testing.T) {
	t.Parallel()
	for _, typ := range []Type{"file:created", "file:modified", "file:deleted"} {
		requireKeys(t, sample()[typ], "path", "content", "size", "sha256")
	}
	requireKeys(t, FileDeleted{File{Path: "a"}}, "path")
}

func TestR70TranscriptShape(t *testing.T) {
	t.Parallel()
	for _, typ := range []Type{"transcript:changed", "transcript:written"} {
		requireKeys(t, sample()[typ], "id", "offset", "sha256")
	}
}

// One event reports what runs for the session, sandbox or null.
func TestR71StatusShape(t *testing.T) {
	t.Parallel()
	loaded := wire(t, whole(Status{Runtime: &Runtime{IsLoaded: true, Sandbox: &Environment{SandboxID: "sb", Status: "ready", RestartCount: 2, LastHealthCheck: at(0)}}}))
	require.Equal(t, map[string]any{"runtime": map[string]any{"isLoaded": true, "sandbox": map[string]any{
		"sandboxId": "sb", "status": "ready", "restartCount": 2.0, "lastHealthCheck": "1970-01-01T00:00:00Z"}}}, loaded["payload"])
	require.Equal(t, "s", loaded["context"].(map[string]any)["sessionId"])
	unloaded := wire(t, whole(Status{Runtime: &Runtime{}}))
	require.Equal(t, map[string]any{"runtime": map[string]any{"isLoaded": false, "sandbox": nil}}, unloaded["payload"])
}

func TestR73OptionsLogErrorShape(t *testing.T) {
	t.Parallel()
	requireKeys(t, sample()[TypeOf(OptionsUpdate{})], "title", "model", "permissionMode", "metadata", "tags")
	requireKeys(t, sample()[TypeOf(Log{})], "level", "message", "data")
	requireKeys(t, sample()[TypeOf(Error{})], "message", "code", "field", "data", "messageId")
}

func TestR74ConversationIDOnEveryEvent(t *testing.T) {
	t.Parallel()
	for typ, p := range sample() {
		e := whole(p)
		e.Context.ConversationID = "toolu_1"
		require.Equal(t, "toolu_1", roundTrip(t, e).Context.Conversation(), "%s", typ)
	}
	require.Equal(t, Main, Context{}.Conversation(), "none given is the session's own")
}

func TestR48To57BlockVocabulary(t *testing.T) {
	t.Parallel()
	types := []BlockType{BlockUserMessage, BlockAssistantText, BlockThinking, BlockToolUse, BlockToolResult, BlockSubagent, BlockSystem, BlockError, BlockSkillLoad}
	require.Equal(t, "[user_message assistant_text thinking tool_use tool_result subagent system error skill_load]", fmt.Sprint(types))
	streaming := slices.DeleteFunc(types, func(typ BlockType) bool { return !typ.HasText() })
	require.Equal(t, "[user_message assistant_text thinking skill_load]", fmt.Sprint(streaming))
}
