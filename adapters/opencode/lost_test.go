package opencode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// lostIn returns the conversation of a database whose agent was lost while a call had a
// state.
func lostIn(t *testing.T, state string) reducer.State {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.json")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(`[
		{"info":{"id":"msg_1","role":"user","sessionID":"ses_main","time":{"created":1}},
		 "parts":[{"id":"prt_1","messageID":"msg_1","sessionID":"ses_main","type":"text","text":"list it"}]},
		{"info":{"id":"msg_2","role":"assistant","parentID":"msg_1","sessionID":"ses_main","time":{"created":2}},
		 "parts":[{"id":"prt_2","messageID":"msg_2","sessionID":"ses_main","type":"tool","tool":"bash","callID":"call","state":STATE}]}]`, "STATE", state)), 0o600))
	sources, err := adapters.SourcesFrom(New(), path)
	require.NoError(t, err)
	return recorded.Parsed(t, sources...)
}

// The archived database may be older than the stream. A call that is pending there and had
// begun in the stream has an unknown effect, and one that never began has none.
func TestR52PendingInTheDatabase(t *testing.T) {
	t.Parallel()
	const pending = `{"status":"pending","input":{},"raw":""}`
	const running = `{"status":"running","input":{"command":"ls"},"time":{"start":3}}`
	appeared := event.Block{ID: "prt_2", Type: event.BlockToolUse, Status: event.StatusPending, ToolUseID: "call", ToolName: "bash", Execution: event.ExecutionPending}
	begun := appeared
	begun.Status, begun.Execution = event.StatusComplete, event.ExecutionRunning
	for name, c := range map[string]struct {
		streamed event.Block
		database string
		// unknown and marks are the numbers of calls, and of events that mark them: the
		// database's own result marks a call too.
		unknown, marks int
	}{
		"never begun":           {appeared, pending, 0, 0},
		"begun in the stream":   {begun, pending, 1, 1},
		"begun on both sides":   {begun, running, 1, 0},
		"begun in the database": {appeared, running, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := effects.Calls{ExecutionID: "x1"}
			calls.Add(event.Event{Payload: event.QueryStarted{Query: event.Query{ExecutionID: "x1"}}})
			calls.Add(event.Event{Payload: event.BlockUpsert{Block: c.streamed}})
			calls.AddPersisted(lostIn(t, c.database))
			require.Len(t, calls.Unknown(), c.unknown)
			require.Len(t, calls.Marks(time.Time{}), c.marks)
		})
	}
}
