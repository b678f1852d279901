package claude

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

// ProfileFiles returns the files of a profile, all in the session's own
// configuration folder so that the workspace does not change; only the profile's
// workspace files are written there.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("claude: %w", err)
	}
	w := profilefiles.New(configDir)
	if p.Instructions != "" {
		w.Config("CLAUDE.md", p.Instructions)
	}
	w.Markdown("rules", p.Rules)
	w.Markdown("agents", p.Subagents)
	w.Markdown("commands", p.Commands)
	w.Skills(p.Skills)
	w.Bundles(p.BundledMCP)
	w.Workspace(p.Workspace)
	if err := writeSettings(w, p, l); err != nil {
		return nil, err
	}
	return w.Files(), nil
}

// mcpServer is the agent's form of an MCP server.
type mcpServer struct {
	Type    string            `json:"type"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// globalConfig is what the agent keeps beside its settings.
type globalConfig struct {
	HasCompletedOnboarding bool                 `json:"hasCompletedOnboarding"`
	MCPServers             map[string]mcpServer `json:"mcpServers,omitempty"`
}

// keepDays prevents the agent from deleting transcripts by age: a session may
// sleep for months.
const keepDays = 36500

// writeSettings writes the agent's own settings. No workspace is trusted: trust lets the
// workspace's own settings allow tools, and an agent that runs everything now may have to
// ask later.
func writeSettings(w *profilefiles.Writer, p adapters.Profile, l adapters.Launch) error {
	for name, v := range map[string]any{
		".claude.json":  globalConfig{HasCompletedOnboarding: true, MCPServers: mcpServers(p, l)},
		"settings.json": map[string]any{"cleanupPeriodDays": keepDays},
	} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("claude: encode %s: %w", name, err)
		}
		w.Config(name, string(data)+"\n")
	}
	return nil
}

// mcpServers returns all servers in the agent's form.
func mcpServers(p adapters.Profile, l adapters.Launch) map[string]mcpServer {
	out := map[string]mcpServer{}
	for name, s := range profilefiles.Servers(p, l) {
		m := mcpServer{Type: "stdio", Command: s.Command, Args: s.Args, Env: s.Env}
		if s.URL != "" {
			m = mcpServer{Type: "http", URL: s.URL, Headers: s.Headers}
		}
		out[name] = m
	}
	return out
}
