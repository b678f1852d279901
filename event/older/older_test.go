package older

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestR62OlderNames(t *testing.T) {
	t.Parallel()
	story := []event.Payload{
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusPending}},
		event.BlockDelta{BlockID: "b1", Delta: "hi"},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Model: "m"}},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: event.Text("hi")}},
		event.BlockUpsert{Block: event.Block{ID: "u1", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: event.Text("x")}},
		event.MetadataUpdate{Model: "m"},
		event.SessionIdle{},
	}
	for version, want := range map[string][]event.Type{
		"v1": {"block_start", "text_delta", "block_update", "block_complete", "block_start", "block_complete", "metadata_update", event.TypeOf(event.SessionIdle{})},
		"v2": {"session:block:start", "session:block:delta", "session:block:update", "session:block:complete",
			"session:block:start", "session:block:complete", event.TypeOf(event.MetadataUpdate{}), event.TypeOf(event.SessionIdle{})},
	} {
		o, err := New(version)
		require.NoError(t, err)
		var got []event.Type
		for i, p := range story {
			events, err := o.Events(event.Event{Payload: p, Context: event.Context{Seq: uint64(i + 1)}})
			require.NoError(t, err)
			for _, ev := range events {
				require.Equal(t, uint64(i+1), ev.Context.Seq, "the context is kept")
				got = append(got, ev.Type())
			}
		}
		require.Equal(t, want, got, version)
	}
	_, err := New("v9")
	require.ErrorContains(t, err, "v1 or v2")
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	o, err := New("v1")
	require.NoError(t, err)
	for _, c := range []struct {
		in   event.Payload
		want string
	}{
		{event.BlockUpsert{Block: event.Block{ID: "t", Type: event.BlockToolUse, Status: event.StatusPending}}, `{"block":{"id":"t","type":"tool_use","status":"pending"}}`},
		{event.BlockUpsert{Block: event.Block{ID: "t", Type: event.BlockToolUse, Execution: event.ExecutionRunning}}, `{"blockId":"t","updates":{"id":"t","type":"tool_use","executionStatus":"running"}}`},
		{event.BlockDelta{BlockID: "t", Delta: "x"}, `{"blockId":"t","delta":"x"}`},
		{event.BlockUpsert{Block: event.Block{ID: "t", Type: event.BlockToolUse, Status: event.StatusComplete}}, `{"blockId":"t","block":{"id":"t","type":"tool_use","status":"complete"}}`},
	} {
		events, err := o.Events(event.Event{Payload: c.in})
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.JSONEq(t, c.want, string(events[0].Payload.(event.Unknown).Raw))
	}
}
