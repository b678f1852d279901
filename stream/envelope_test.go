package stream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// TestR59EnrichmentNeverChangesThePayload: an event reaches its subscribers as
// {type, payload, context}. On the way the context gets its session and number;
// its other fields are kept, and the payload is the same bytes.
func TestR59EnrichmentNeverChangesThePayload(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	at := time.Date(2026, 11, 22, 3, 4, 5, 6, time.UTC)
	made := event.Context{ConversationID: "toolu_1", Source: event.SourceRunner, Timestamp: at}
	payloads := []event.Payload{
		event.BlockDelta{BlockID: "b", Delta: "a < b & c\u2028 \x00 漢"},
		event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockToolUse, Input: json.RawMessage(`{"z":1,"a":12345678901234567890,"s":"<\u003c>"}`)}},
		event.EEReady{Environment: event.Environment{SandboxID: "sb", Status: "ready"}},
		event.Native{Agent: "claude", Dir: event.DirOut, Kind: "k", Raw: json.RawMessage(`{"sessionId":"theirs","seq":99}`)},
		event.Unknown{Name: "quantum:leap", Raw: json.RawMessage(`{"context":{"sessionId":"theirs"},"n":1.0}`)},
	}
	var events []event.Event
	for _, p := range payloads {
		events = append(events, event.Event{Payload: p, Context: made})
	}
	_, err := b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k", Events: events[:2]})
	require.NoError(t, err)
	w := b.writer(t, "s1", 1, 1)
	_, err = w.Append(t.Context(), events[2:], Position{})
	require.NoError(t, err)

	var got []event.Event
	for e, err := range b.Read(t.Context(), "s1", 0, ReadOptions{}) {
		require.NoError(t, err)
		if e.Context.ConversationID == made.ConversationID { // not the writer's fence
			got = append(got, e)
		}
	}
	require.Len(t, got, len(events))
	for i, e := range got {
		require.Equal(t, payloadOf(t, events[i]), payloadOf(t, e), "%s", e.Type())
		want := made
		want.SessionID, want.Seq = "s1", []uint64{1, 2, 4, 5, 6}[i]
		require.Equal(t, want, e.Context, "%s", e.Type())
	}
	require.Equal(t, event.Context{ConversationID: "toolu_1", Source: event.SourceRunner, Timestamp: at}, events[0].Context, "the maker's event is not written to")
}

// payloadOf returns the payload's bytes in an event's wire form, which has three
// fields.
func payloadOf(t *testing.T, e event.Event) string {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	var wire map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &wire))
	require.Len(t, wire, 3)
	require.Contains(t, wire, "type")
	require.Contains(t, wire, "context")
	return string(wire["payload"])
}
