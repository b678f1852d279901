package host

import (
	"context"
	"fmt"
	"maps"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// toolsIn returns where an agent that may spawn calls Sojourn's tools.
func toolsIn(paths sandbox.Paths) runner.ToolsSpec {
	return runner.ToolsSpec{Socket: runner.ToolSocketPath(paths.Socket), Program: paths.Runner}
}

// mayUseTools reports whether a session's agent may call Sojourn's tools on this host.
func (h *Host) mayUseTools(in contract.Agent) bool { return in.Spawn && h.o.Tools != nil }

// withTools returns a profile's MCP servers and that of Sojourn's tools.
func withTools(p adapters.Profile, home string, tools runner.ToolsSpec) (map[string]adapters.MCPServer, error) {
	_, taken := p.MCPServers[agenttools.Server]
	if _, bundled := p.BundledMCP[agenttools.Server]; taken || bundled {
		return nil, fmt.Errorf("%w: its MCP server %s has the name of the one by which agents spawn: rename it, or start the session without that", ErrProfile, agenttools.Server)
	}
	all := map[string]adapters.MCPServer{agenttools.Server: {Command: tools.Program, Args: []string{"mcp", "--socket", tools.Socket}}}
	maps.Copy(all, p.Servers(home))
	return all, nil
}

// answerTools answers the agent's tool calls until ctx or the connection ends. Calls that
// are not answered by then come to the next connection.
func (h *Host) answerTools(ctx context.Context, a *Agent) {
	for call, err := range a.Conn.ToolCalls(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				h.o.Log.Debug("tool calls end", "session", a.Launch.SessionID, "error", err)
			}
			return
		}
		h.background.Go(func() {
			result := h.o.Tools(ctx, a.Launch.SessionID, call)
			if ctx.Err() != nil {
				return
			}
			if err := a.Conn.ReturnTool(ctx, call.ID, result); err != nil {
				h.o.Log.Debug("result of a tool call not returned", "session", a.Launch.SessionID, "tool", call.Name, "error", err)
			}
		})
	}
}
