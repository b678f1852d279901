package older

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestR62OlderNames(t *testing.T) {
	t.Parallel()
	story := []event.Payload{
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusPending}},
		event.BlockDelta{BlockID: "b1", Delta: "hi"},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Model: "m"}},
		event.BlockUpsert{Block: event.Block{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("hi")}},
		event.BlockUpsert{Block: event.Block{ID: "u1", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: new("x")}},
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
	require.ErrorContains(t, err, "v1, v2 or v3")
}

// The second system's clients route by the ids in a payload, which the first one's had not.
func TestPayloadsWithTheirPlace(t *testing.T) {
	t.Parallel()
	in := func(p event.Payload) event.Event {
		return event.Event{Payload: p, Context: event.Context{SessionID: "s1", ConversationID: "sub"}}
	}
	const at = `"sessionId":"s1","conversationId":"sub",`
	block := event.Block{ID: "t", Type: event.BlockToolUse, Status: event.StatusComplete}
	require.Equal(t, []string{
		`session:block:start {` + at + `"block":{"id":"t","type":"tool_use","status":"complete"}}`,
		`session:block:complete {` + at + `"blockId":"t","block":{"id":"t","type":"tool_use","status":"complete"}}`,
	}, wire(t, "v2", in(event.BlockUpsert{Block: block})))
	require.Equal(t, []string{`session:block:delta {` + at + `"blockId":"t","delta":"x"}`}, wire(t, "v2", in(event.BlockDelta{BlockID: "t", Delta: "x"})))
	require.Equal(t, []string{`text_delta {"blockId":"t","delta":"x"}`}, wire(t, "v1", in(event.BlockDelta{BlockID: "t", Delta: "x"})))
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

// The older vocabulary of sessions and files has four names beside those of blocks.
func TestR130NamesOfSessionsAndFiles(t *testing.T) {
	t.Parallel()
	running := event.Status{State: "ready", Runtime: &event.Runtime{IsLoaded: true, Sandbox: &event.Environment{
		SandboxID: "e1", Host: "h", Status: "ready", LastHealthCheck: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}}
	stopped := event.Status{Runtime: &event.Runtime{}}
	for name, c := range map[string]struct {
		in   event.Payload
		want []string
	}{
		"a new session":      {event.SessionInitialized{Agent: "claude", Title: "T"}, []string{`session:created {"sessionId":"s1","agent":"claude","title":"T"}`, `sessions:changed {}`}},
		"a reopened session": {event.SessionInitialized{Agent: "claude", Reopened: true}, []string{`session:initialized {"agent":"claude","reopened":true}`, `sessions:changed {}`}},
		"a closed session":   {event.SessionClosed{Reason: "closed"}, []string{`session:closed {"reason":"closed"}`, `sessions:changed {}`}},
		"a new title":        {event.OptionsUpdate{Title: new("T")}, []string{`options:update {"title":"T"}`, `sessions:changed {}`}},
		"another model":      {event.OptionsUpdate{Model: new("m")}, []string{`options:update {"model":"m"}`}},
		"what runs": {running, []string{
			`session:status {"sessionId":"s1","runtime":{"isLoaded":true,"sandbox":{"sandboxId":"e1","status":"ready","restartCount":0,"lastHealthCheck":1767323045000}}}`,
		}},
		"nothing runs":   {stopped, []string{`session:status {"sessionId":"s1","runtime":{"isLoaded":false,"sandbox":null}}`}},
		"a fence":        {event.Status{Epoch: 2, Attempt: 1}, []string{`status {"epoch":2,"attempt":1}`}},
		"a new file":     {event.FileCreated{File: event.File{Path: "a", Size: 1}}, []string{`session:file:modified {"sessionId":"s1","file":{"path":"a","size":1}}`}},
		"a changed file": {event.FileModified{File: event.File{Path: "a", Size: 2}}, []string{`session:file:modified {"sessionId":"s1","file":{"path":"a","size":2}}`}},
		"a deleted file": {event.FileDeleted{File: event.File{Path: "a"}}, []string{`file:deleted {"path":"a"}`}},
	} {
		ev := event.Event{Payload: c.in, Context: event.Context{SessionID: "s1", Seq: 7}}
		require.Equal(t, c.want, wire(t, "v2", ev), name)
		require.Equal(t, []string{wireOf(t, ev)}, wire(t, "v1", ev), "%s: the first vocabulary has no name for it", name)
	}
}

// wire returns an event in an older vocabulary, as it is sent.
func wire(t *testing.T, version string, ev event.Event) (out []string) {
	t.Helper()
	o, err := New(version)
	require.NoError(t, err)
	events, err := o.Events(ev)
	require.NoError(t, err)
	for _, e := range events {
		require.Equal(t, ev.Context, e.Context, "the context is kept")
		out = append(out, wireOf(t, e))
	}
	return out
}

func wireOf(t *testing.T, ev event.Event) string {
	t.Helper()
	data, err := json.Marshal(ev)
	require.NoError(t, err)
	var sent struct {
		Type    string
		Payload json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &sent))
	return sent.Type + " " + string(sent.Payload)
}
