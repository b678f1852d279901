package opencode

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

// ProfileFiles returns the files of a profile, all in the session's own
// configuration folder so that the workspace does not change; only the profile's
// workspace files are written there.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	w := profilefiles.New(configDir)
	if p.Instructions != "" {
		w.Config("AGENTS.md", p.Instructions)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		w.Config(ruleFile(name), p.Rules[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Subagents)) {
		w.Config(path.Join("agents", name+".md"), frontMatter(p.Subagents[name], agentKeys, "mode: subagent"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Commands)) {
		w.Config(path.Join("commands", name+".md"), frontMatter(p.Commands[name], commandKeys, ""))
	}
	w.Skills(p.Skills)
	w.Bundles(p.BundledMCP)
	w.Workspace(p.Workspace)
	w.Config("node_modules/README", "Nothing is installed here: no profile has plugins.\n")
	w.Config("package-lock.json", pluginsLock)
	if err := writeConfig(w, p, l); err != nil {
		return nil, err
	}
	return w.Files(), nil
}

// pluginsLock, beside a folder node_modules, keeps the program from installing in its own
// folder, with each start, a package that only plugins use.
const pluginsLock = `{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}` + "\n"

func ruleFile(name string) string { return path.Join("rules", name+".md") }

// config is the agent's own settings.
type config struct {
	Schema       string               `json:"$schema"`
	Autoupdate   bool                 `json:"autoupdate"`
	Share        string               `json:"share"`
	Snapshot     bool                 `json:"snapshot"`
	Model        string               `json:"model,omitempty"`
	SmallModel   string               `json:"small_model,omitempty"`
	Instructions []string             `json:"instructions,omitempty"`
	MCP          map[string]mcpServer `json:"mcp,omitempty"`
	Provider     map[string]provider  `json:"provider,omitempty"`
	Agent        map[string]any       `json:"agent"`
}

type mcpServer struct {
	Type        string            `json:"type"`
	Command     []string          `json:"command,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	URL         string            `json:"url,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	OAuth       *bool             `json:"oauth,omitempty"`
}

// provider is where a model's API is, and what the agent must know of models
// that its own catalogue may not have.
type provider struct {
	Options map[string]string   `json:"options"`
	Models  map[string]struct{} `json:"models,omitempty"`
}

// writeConfig writes the settings, without the rules for permissions: each process gets
// those of its start. Sojourn makes titles, so the agent's own request for one is avoided;
// and the agent does not keep the workspace's history.
func writeConfig(w *profilefiles.Writer, p adapters.Profile, l adapters.Launch) error {
	c := config{
		Schema: "https://opencode.ai/config.json", Share: "disabled", Model: l.Model,
		MCP: mcpServers(p, l), Agent: map[string]any{"title": map[string]any{"disable": true}},
	}
	if c.Model == "" {
		c.Model = p.Model
	}
	c.SmallModel = c.Model
	c.Provider = providers(l.Env, c.Model)
	// A process that asks reads no settings of the workspace, and so not this either.
	c.Instructions = append(c.Instructions, path.Join(l.Workspace, "AGENTS.md"))
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		c.Instructions = append(c.Instructions, path.Join(l.Home, configDir, ruleFile(name)))
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("opencode: encode opencode.json: %w", err)
	}
	w.Config("opencode.json", string(data)+"\n")
	return nil
}

// endpoints are the variables by which users set a provider's API address: the
// agent reads that from its settings only. Keys are referred to by their
// variables and never written.
var endpoints = []struct{ provider, url, key, version string }{
	{"anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "/v1"},
	{"openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", ""},
	{"google", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "/v1beta"},
}

func providers(env map[string]string, model string) map[string]provider {
	out := map[string]provider{}
	for _, e := range endpoints {
		url := strings.TrimSuffix(env[e.url], "/")
		if url == "" {
			continue
		}
		if e.version != "" && !strings.HasSuffix(url, e.version) {
			url += e.version
		}
		p := provider{Options: map[string]string{"baseURL": url}}
		if env[e.key] != "" {
			p.Options["apiKey"] = "{env:" + e.key + "}"
		}
		if name, found := strings.CutPrefix(model, e.provider+"/"); found {
			p.Models = map[string]struct{}{name: {}}
		}
		out[e.provider] = p
	}
	return out
}

// mcpServers returns all servers in the agent's form.
func mcpServers(p adapters.Profile, l adapters.Launch) map[string]mcpServer {
	out := map[string]mcpServer{}
	for name, s := range profilefiles.Servers(p, l) {
		m := mcpServer{Type: "local", Command: append([]string{s.Command}, s.Args...), Environment: s.Env}
		if s.URL != "" {
			m = mcpServer{Type: "remote", URL: s.URL, Headers: s.Headers, OAuth: new(bool)}
		}
		out[name] = m
	}
	return out
}

// The keys of front matter that the agent understands. A key or a value that it
// does not understand keeps its server from starting.
var (
	agentKeys   = []string{"description", "mode", "model", "temperature", "top_p", "tools", "permission", "steps", "hidden"}
	commandKeys = []string{"description", "agent", "model", "subtask"}
)

// frontMatter keeps the keys of a Markdown file's head that the agent
// understands, and adds a line where its key is missing.
func frontMatter(text string, keys []string, add string) string {
	body := text
	var head []string
	if rest, found := strings.CutPrefix(text, "---\n"); found {
		if in, after, found := strings.Cut(rest, "\n---\n"); found {
			head, body = keepKeys(strings.Split(in, "\n"), keys), after
		}
	}
	key, _, _ := strings.Cut(add, ":")
	if add != "" && !slices.ContainsFunc(head, func(l string) bool { return strings.HasPrefix(l, key+":") }) {
		head = append(head, add)
	}
	if len(head) == 0 {
		return body
	}
	return "---\n" + strings.Join(head, "\n") + "\n---\n" + body
}

// keepKeys keeps the lines of some keys, whose values the agent understands.
func keepKeys(lines, keys []string) []string {
	var out []string
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && (lines[n] == "" || strings.ContainsAny(lines[n][:1], " \t-")) {
			n++
		}
		key, value, _ := strings.Cut(lines[0], ":")
		if slices.Contains(keys, key) && understood(key, strings.TrimSpace(value), lines[1:n]) {
			out = append(out, lines[:n]...)
		}
		lines = lines[n:]
	}
	return out
}

// toolSwitch is a line of the agent's own form of tools: whether it has one.
var toolSwitch = regexp.MustCompile(`^\s+[^\s#-][^#]*:\s+(true|false)\s*(#.*)?$`)

// understood refuses values in the form of other agents: lists of tools, models without
// their provider. below are the lines below the key's.
func understood(key, value string, below []string) bool {
	switch key {
	case "tools":
		return value == "" && !slices.ContainsFunc(below, func(line string) bool {
			line = strings.TrimRight(line, " \t\r")
			return line != "" && !strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") && !toolSwitch.MatchString(line)
		})
	case "model":
		return strings.Contains(value, "/")
	}
	return true
}
