package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// toolsIn returns where an agent calls Sojourn's tools and those of programs.
func toolsIn(paths sandbox.Paths) runner.ToolsSpec {
	return runner.ToolsSpec{Socket: runner.ToolSocketPath(paths.Socket), Program: paths.Runner}
}

// mayUseTools reports whether a session's agent has tools of Sojourn's MCP server on this host.
func (h *Host) mayUseTools(in contract.Agent) bool {
	return (in.Spawn || len(in.Tools) > 0) && h.o.Tools != nil
}

// serverArgs returns the arguments of the MCP server. The programs' tools are encoded in a form that
// no agent takes for anything: some expand variables in what they start.
func serverArgs(in contract.Agent, socket string) ([]string, error) {
	args := []string{"mcp", "--socket", socket}
	if !in.Spawn {
		args = append(args, "--no-agents")
	}
	if len(in.Tools) == 0 {
		return args, nil
	}
	var all []agenttools.Program
	for _, t := range in.Tools {
		all = append(all, agenttools.Program{Name: t.Name, Description: t.Description, Input: t.Input})
	}
	data, err := json.Marshal(all)
	return append(args, "--tools", base64.RawURLEncoding.EncodeToString(data)), err
}

// withTools returns a profile's MCP servers and that of Sojourn's tools.
func withTools(in contract.Agent, p adapters.Profile, home string, tools runner.ToolsSpec) (map[string]adapters.MCPServer, error) {
	args, err := serverArgs(in, tools.Socket)
	if err != nil {
		return nil, err
	}
	_, taken := p.MCPServers[agenttools.Server]
	if _, bundled := p.BundledMCP[agenttools.Server]; taken || bundled {
		return nil, fmt.Errorf("%w: its MCP server %s has the name of Sojourn's own: rename it, or start the session without spawning and tools", ErrProfile, agenttools.Server)
	}
	all := map[string]adapters.MCPServer{agenttools.Server: {Command: tools.Program, Args: args}}
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
