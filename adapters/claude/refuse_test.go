package claude

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// A request of the program that no caller can decide, such as an MCP server's elicitation, is
// refused at once: the program waits for an answer, for ever.
func TestForeignRequestsAreRefused(t *testing.T) {
	t.Parallel()
	tr, err := newTranslator(adapters.Launch{}, nil)
	require.NoError(t, err)
	events := tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"type":"control_request","request_id":"e1","request":{"subtype":"elicitation","mcp_server_name":"forms","message":"Which one?"}}`})
	require.Equal(t, "control_request/elicitation", events[0].Payload.(event.Native).Kind)
	due := tr.Due()
	require.Len(t, due, 1)
	require.JSONEq(t, `{"type":"control_response","response":{"subtype":"error","request_id":"e1","error":"not supported by this client"}}`, string(due[0].Data))
	require.Empty(t, tr.Due())
	tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"type":"control_request","request_id":"e2","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}`})
	require.Empty(t, tr.Due(), "a person decides that")
}
