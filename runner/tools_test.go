//go:build linux

package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/runner"
)

// offersTools returns a bench whose agent is the MCP server itself: it sees nothing of the
// folder in which the runner's sockets are, but the one for tools.
func offersTools(t *testing.T, mode runner.IsolationMode) *bench {
	t.Helper()
	b := setup(t, mode)
	b.spec.Tools = runner.ToolsSpec{Socket: runner.ToolSocketPath(b.spec.Socket), Program: b.program}
	b.spec.Argv = []string{b.program, "mcp", "--socket", b.spec.Tools.Socket}
	b.spec.Isolation.Hide = []string{filepath.Dir(b.spec.Socket)}
	return b
}

// request sends the agent a line of the protocol.
func request(t *testing.T, c *runner.Conn, method string, id int, params string) {
	t.Helper()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	if id == 0 {
		line = fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	}
	_, err := c.Input(t.Context(), fmt.Sprint(method, id), []byte(line))
	require.NoError(t, err)
}

// answerTo returns the agent's answer to a request.
func answerTo(t *testing.T, c *runner.Conn, id int) string {
	t.Helper()
	for d, err := range c.Records(t.Context(), 0) {
		require.NoError(t, err)
		if d.Record.Dir == "out" && strings.Contains(d.Record.Line, fmt.Sprintf(`"id":%d,`, id)) {
			return d.Record.Line
		}
	}
	t.Fatalf("no answer to request %d", id)
	return ""
}

// nextCall returns the first tool call that waits, or comes.
func nextCall(t *testing.T, c *runner.Conn) runner.ToolCall {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for call, err := range c.ToolCalls(ctx) {
		require.NoError(t, err)
		return call
	}
	t.Fatal("no tool call")
	return runner.ToolCall{}
}

// TestToolCallsOfAnAgent: a call reaches the client that is attached, again after a lost
// connection, with the same id; its result reaches the agent. A cancelled one is gone.
func TestToolCallsOfAnAgent(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := offersTools(t, mode)
		b.mustStart()
		first := b.dial()
		request(t, first, "initialize", 1, `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
		answerTo(t, first, 1)
		request(t, first, "notifications/initialized", 0, `{}`)
		request(t, first, "tools/list", 2, `{}`)
		for _, tool := range []string{agenttools.SpawnAgent, agenttools.ListAgents, agenttools.WaitAgent, agenttools.MessageAgent, agenttools.StopAgent} {
			require.Contains(t, answerTo(t, first, 2), `"name":"`+tool+`"`)
		}
		request(t, first, "tools/call", 3, `{"name":"spawn_agent","arguments":{"prompt":"the task"}}`)
		call := nextCall(t, first)
		require.Equal(t, agenttools.SpawnAgent, call.Name)
		require.JSONEq(t, `{"prompt":"the task"}`, string(call.Arguments))
		require.NoError(t, first.Close())

		second := b.dial()
		require.Equal(t, call, nextCall(t, second), "the call without a result")
		request(t, second, "tools/call", 4, `{"name":"wait_agent","arguments":{"agent_ids":["a"]}}`)
		require.NoError(t, second.ReturnTool(t.Context(), call.ID, runner.ToolResult{Text: "the other agent's words"}))
		require.Equal(t, agenttools.WaitAgent, nextCall(t, second).Name, "the call with a result does not wait, also if the agent has not read it")
		require.Contains(t, answerTo(t, second, 3), "the other agent's words")

		request(t, second, "notifications/cancelled", 0, `{"requestId":4}`)
		request(t, second, "tools/call", 5, `{"name":"list_agents","arguments":{}}`)
		require.Eventually(t, func() bool { return nextCall(t, second).Name == agenttools.ListAgents }, time.Minute, 10*time.Millisecond)
		list := nextCall(t, second)
		require.NoError(t, second.ReturnTool(t.Context(), list.ID, runner.ToolResult{Failed: true, Text: "no such luck"}))
		var failed struct {
			Result struct {
				IsError bool `json:"isError"`
			} `json:"result"`
		}
		require.NoError(t, json.Unmarshal([]byte(answerTo(t, second, 5)), &failed))
		require.True(t, failed.Result.IsError)
	})
}

// TestNoToolsUnlessGiven: an agent that was started without tools makes no calls, and who
// asks for some is refused.
func TestNoToolsUnlessGiven(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone)
	b.mustStart()
	for _, err := range b.dial().ToolCalls(t.Context()) {
		require.ErrorContains(t, err, "no tools")
	}
}
