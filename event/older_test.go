package event

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestR62OlderNames(t *testing.T) {
	t.Parallel()
	story := []Payload{
		BlockUpsert{Block: Block{ID: "b1", Type: BlockAssistantText, Status: StatusPending}},
		BlockDelta{BlockID: "b1", Delta: "hi"},
		BlockUpsert{Block: Block{ID: "b1", Type: BlockAssistantText, Model: "m"}},
		BlockUpsert{Block: Block{ID: "b1", Type: BlockAssistantText, Status: StatusComplete, Content: Text("hi")}},
		BlockUpsert{Block: Block{ID: "u1", Type: BlockUserMessage, Status: StatusComplete, Content: Text("x")}},
		MetadataUpdate{Model: "m"},
		SessionIdle{},
	}
	for version, want := range map[string][]Type{
		"v1": {"block_start", "text_delta", "block_update", "block_complete", "block_start", "block_complete", "metadata_update", TypeOf(SessionIdle{})},
		"v2": {"session:block:start", "session:block:delta", "session:block:update", "session:block:complete",
			"session:block:start", "session:block:complete", TypeOf(MetadataUpdate{}), TypeOf(SessionIdle{})},
	} {
		o, err := NewOlder(version)
		require.NoError(t, err)
		var got []Type
		for i, p := range story {
			events, err := o.Events(Event{Payload: p, Context: Context{Seq: uint64(i + 1)}})
			require.NoError(t, err)
			for _, ev := range events {
				require.Equal(t, uint64(i+1), ev.Context.Seq, "the context is kept")
				got = append(got, ev.Type())
			}
		}
		require.Equal(t, want, got, version)
	}
	_, err := NewOlder("v9")
	require.ErrorContains(t, err, "v1 or v2")
}

func TestOlderPayloads(t *testing.T) {
	t.Parallel()
	o, err := NewOlder("v1")
	require.NoError(t, err)
	for _, c := range []struct {
		in   Payload
		want string
	}{
		{BlockUpsert{Block: Block{ID: "t", Type: BlockToolUse, Status: StatusPending}}, `{"block":{"id":"t","type":"tool_use","status":"pending"}}`},
		{BlockUpsert{Block: Block{ID: "t", Type: BlockToolUse, Execution: ExecutionRunning}}, `{"blockId":"t","updates":{"id":"t","type":"tool_use","executionStatus":"running"}}`},
		{BlockDelta{BlockID: "t", Delta: "x"}, `{"blockId":"t","delta":"x"}`},
		{BlockUpsert{Block: Block{ID: "t", Type: BlockToolUse, Status: StatusComplete}}, `{"blockId":"t","block":{"id":"t","type":"tool_use","status":"complete"}}`},
	} {
		events, err := o.Events(Event{Payload: c.in})
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.JSONEq(t, c.want, string(events[0].Payload.(Unknown).Raw))
	}
}
