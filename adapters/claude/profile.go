package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

// ProfileFiles gives the files of a profile, all in the session's own
// configuration folder so that the workspace stays as the user has it; only
// the profile's workspace files go there.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("claude: %w", err)
	}
	w := &writer{}
	if p.Instructions != "" {
		w.home("CLAUDE.md", p.Instructions)
	}
	w.markdown("rules", p.Rules)
	w.markdown("agents", p.Subagents)
	w.markdown("commands", p.Commands)
	for _, name := range slices.Sorted(maps.Keys(p.Skills)) {
		for _, file := range slices.Sorted(maps.Keys(p.Skills[name])) {
			w.home(path.Join("skills", name, file), p.Skills[name][file])
		}
	}
	w.bundles(p.BundledMCP)
	for _, file := range slices.Sorted(maps.Keys(p.Workspace)) {
		w.files = append(w.files, adapters.File{
			Base: adapters.InWorkspace, Path: file, Mode: 0o644, Data: []byte(p.Workspace[file])})
	}
	if err := w.settings(p, l); err != nil {
		return nil, err
	}
	return w.files, nil
}

// writer collects files.
type writer struct{ files []adapters.File }

// home adds a file below the configuration folder. The modes keep secrets in
// MCP settings from other users of the machine.
func (w *writer) home(name, text string) {
	w.files = append(w.files, adapters.File{
		Base: adapters.InHome, Path: path.Join(configDir, name), Mode: 0o600, Data: []byte(text)})
}

func (w *writer) markdown(dir string, files map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w.home(path.Join(dir, name+".md"), files[name])
	}
}

func (w *writer) bundles(servers map[string]adapters.BundledMCP) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		for _, file := range slices.Sorted(maps.Keys(servers[name].Files)) {
			w.files = append(w.files, adapters.File{
				Base: adapters.InHome, Path: path.Join(adapters.BundledDir(name), file), Mode: 0o700,
				Data: []byte(servers[name].Files[file])})
		}
	}
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
	HasCompletedOnboarding bool                     `json:"hasCompletedOnboarding"`
	Projects               map[string]projectConfig `json:"projects,omitempty"`
	MCPServers             map[string]mcpServer     `json:"mcpServers,omitempty"`
}

type projectConfig struct {
	HasTrustDialogAccepted bool `json:"hasTrustDialogAccepted"`
}

// keepDays stops the agent from deleting transcripts by age: a session may
// sleep for months.
const keepDays = 36500

// settings writes the agent's own settings. A workspace is trusted only where
// nothing is asked anyway: trust lets the workspace's own settings allow tools.
func (w *writer) settings(p adapters.Profile, l adapters.Launch) error {
	global := globalConfig{HasCompletedOnboarding: true, MCPServers: mcpServers(p, l)}
	if l.Permission == adapters.PermissionAllow && l.Workspace != "" {
		global.Projects = map[string]projectConfig{l.Workspace: {HasTrustDialogAccepted: true}}
	}
	for name, v := range map[string]any{
		".claude.json":  global,
		"settings.json": map[string]any{"cleanupPeriodDays": keepDays},
	} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("claude: encode %s: %w", name, err)
		}
		w.home(name, string(data)+"\n")
	}
	slices.SortFunc(w.files, func(a, b adapters.File) int {
		return slices.Compare([]string{string(a.Base), a.Path}, []string{string(b.Base), b.Path})
	})
	return nil
}

// mcpServers are the profile's servers and its bundled ones; what the launch
// gives, with its secrets filled in, takes precedence.
func mcpServers(p adapters.Profile, l adapters.Launch) map[string]mcpServer {
	all := maps.Clone(p.MCPServers)
	if all == nil {
		all = map[string]adapters.MCPServer{}
	}
	maps.Copy(all, l.MCPServers)
	out := map[string]mcpServer{}
	for name, s := range all {
		m := mcpServer{Type: "stdio", Command: s.Command, Args: s.Args, Env: s.Env}
		if s.URL != "" {
			m = mcpServer{Type: "http", URL: s.URL, Headers: s.Headers}
		}
		out[name] = m
	}
	for name, b := range p.BundledMCP {
		// The configuration has no working folder, so the shell goes there.
		args := append([]string{"-c", `cd "$0" && exec "$@"`, path.Join(l.Home, adapters.BundledDir(name))}, b.Start...)
		out[name] = mcpServer{Type: "stdio", Command: "/bin/sh", Args: args, Env: b.Env}
	}
	return out
}
