package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

// instructions of the session beside those of the profile.
const (
	instructionsFile = "GEMINI.md"
	promptFile       = "SOJOURN.md"
	rulesDir         = "rules"
)

// ProfileFiles gives the files of a profile, all in the session's own
// configuration folder so that the workspace stays as the user has it; only
// the profile's workspace files go there.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	w := &writer{}
	w.instructions(p, l)
	for _, name := range slices.Sorted(maps.Keys(p.Subagents)) {
		w.home(path.Join("agents", name+".md"), p.Subagents[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Commands)) {
		w.home(path.Join("commands", name+".toml"), commandTOML(p.Commands[name]))
	}
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
	w.settings(p, l)
	slices.SortFunc(w.files, func(a, b adapters.File) int {
		return slices.Compare([]string{string(a.Base), a.Path}, []string{string(b.Base), b.Path})
	})
	return w.files, nil
}

// writer collects files.
type writer struct{ files []adapters.File }

// home adds a file below the configuration folder. The mode keeps secrets in
// MCP settings from other users of the machine.
func (w *writer) home(name, text string) {
	w.files = append(w.files, adapters.File{
		Base: adapters.InHome, Path: path.Join(configDir, name), Mode: 0o600, Data: []byte(text)})
}

// instructions writes what the agent is told of its work. It has no folder for
// rules, so its own file imports them.
func (w *writer) instructions(p adapters.Profile, l adapters.Launch) {
	text := p.Instructions
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		w.home(path.Join(rulesDir, name+".md"), p.Rules[name])
		text += "\n\n@./" + path.Join(rulesDir, name+".md")
	}
	if text != "" {
		w.home(instructionsFile, text+"\n")
	}
	if l.SystemPrompt != "" {
		w.home(promptFile, l.SystemPrompt+"\n")
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

type settings map[string]any

// settings writes the agent's own settings: nothing is sent to anybody but the
// model, nothing updates itself or asks at the start, and no session is deleted
// by its age. Commands run without a terminal of their own, because then what
// they print is told as text.
func (w *writer) settings(p adapters.Profile, l adapters.Launch) {
	data, err := json.MarshalIndent(settings{
		"security": settings{
			"auth":        settings{"selectedType": authType(l.Env)},
			"folderTrust": settings{"enabled": false},
		},
		"telemetry": settings{"enabled": false},
		"privacy":   settings{"usageStatisticsEnabled": false},
		"general": settings{
			"enableAutoUpdate": false, "enableAutoUpdateNotification": false,
			"sessionRetention": settings{"enabled": false},
			// The model's API is tried again in silence, with longer and longer
			// pauses: four times take half a minute, ten would take four.
			"maxAttempts": 4,
		},
		"ide":        settings{"enabled": false},
		"ui":         settings{"hideTips": true, "hideBanner": true},
		"tools":      settings{"shell": settings{"enableInteractiveShell": false}},
		"context":    settings{"fileName": []string{instructionsFile, "AGENTS.md", promptFile}},
		"mcpServers": mcpServers(p, l),
	}, "", "  ")
	if err != nil {
		panic(err) // strings, booleans and maps of them can always be encoded
	}
	w.home("settings.json", string(data)+"\n")
}

// authType is how the agent finds its key: by the environment that it is given.
func authType(env map[string]string) string {
	if env["GEMINI_API_KEY"] == "" && env["GOOGLE_GENAI_USE_VERTEXAI"] == "true" {
		return "vertex-ai"
	}
	return "gemini-api-key"
}

// mcpServer is the agent's form of an MCP server. Trust leaves the asking to
// the standing permission.
type mcpServer struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	HTTPURL string            `json:"httpUrl,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
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
		out[name] = mcpServer{Command: s.Command, Args: s.Args, Env: s.Env, HTTPURL: s.URL, Headers: s.Headers}
	}
	for name, b := range p.BundledMCP {
		out[name] = mcpServer{Command: b.Start[0], Args: b.Start[1:], Env: b.Env,
			Cwd: path.Join(l.Home, adapters.BundledDir(name))}
	}
	return out
}
