package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

// Instructions of the session beside those of the profile.
const (
	instructionsFile = "GEMINI.md"
	promptFile       = "SOJOURN.md"
	rulesDir         = "rules"
)

// ProfileFiles returns the files of a profile, all in the session's own
// configuration folder so that the workspace does not change; only the profile's
// workspace files are written there.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	w := profilefiles.New(configDir)
	writeInstructions(w, p, l)
	for _, name := range slices.Sorted(maps.Keys(p.Subagents)) {
		w.Config(path.Join("agents", name+".md"), p.Subagents[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Commands)) {
		w.Config(path.Join("commands", name+".toml"), commandTOML(p.Commands[name]))
	}
	w.Skills(p.Skills)
	w.Bundles(p.BundledMCP)
	w.Workspace(p.Workspace)
	writeSettings(w, p, l)
	return w.Files(), nil
}

// writeInstructions writes the agent's instructions. It has no folder for
// rules, so its own file imports them.
func writeInstructions(w *profilefiles.Writer, p adapters.Profile, l adapters.Launch) {
	text := p.Instructions
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		w.Config(path.Join(rulesDir, name+".md"), p.Rules[name])
		text += "\n\n@./" + path.Join(rulesDir, name+".md")
	}
	if text != "" {
		w.Config(instructionsFile, text+"\n")
	}
	if l.SystemPrompt != "" {
		w.Config(promptFile, l.SystemPrompt+"\n")
	}
}

type settings map[string]any

// writeSettings writes the agent's own settings: nothing is sent except to the
// model, nothing updates itself or asks at the start, and no session is deleted
// by its age. Commands run without a terminal, because then their output is
// reported as text.
func writeSettings(w *profilefiles.Writer, p adapters.Profile, l adapters.Launch) {
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
			// The model's API is retried silently, with growing pauses: four times take
			// half a minute, ten would take four.
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
	w.Config("settings.json", string(data)+"\n")
	w.Config(askPolicy, askRules)
}

// authType returns how the agent finds its key: by its environment.
func authType(env map[string]string) string {
	if env["GEMINI_API_KEY"] == "" && env["GOOGLE_GENAI_USE_VERTEXAI"] == "true" {
		return "vertex-ai"
	}
	return "gemini-api-key"
}

// mcpServer is the agent's form of an MCP server. Trust leaves the asking to the
// permission mode.
type mcpServer struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	HTTPURL string            `json:"httpUrl,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// mcpServers returns all servers in the agent's form.
func mcpServers(p adapters.Profile, l adapters.Launch) map[string]mcpServer {
	out := map[string]mcpServer{}
	for name, s := range profilefiles.Servers(p, l) {
		out[name] = mcpServer{Command: s.Command, Args: s.Args, Env: s.Env, HTTPURL: s.URL, Headers: s.Headers}
	}
	return out
}
