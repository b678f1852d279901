package codex

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

const (
	envBaseURL = "OPENAI_BASE_URL"
	envKey     = "OPENAI_API_KEY"
	// vendorURL is what the program's own provider uses. It has to be set, because
	// that provider reads no key from the environment.
	vendorURL = "https://api.openai.com/v1"
	// retries are few, so that a failure is reported while it still matters. The
	// program's own numbers are 4 and 5.
	retries = 3
	// maxInstructions is the size in bytes up to which the program reads
	// instructions; its own limit of 32 KiB silently truncates longer ones.
	maxInstructions = 1 << 20
)

// config returns the program's configuration file: it connects only to the model
// and follows the profile.
func config(p adapters.Profile, l adapters.Launch) string {
	policy, sandbox := permissions(l.Permission)
	var t toml
	if model := first(l.Model, p.Model); model != "" {
		t.set("model", model)
	}
	if policy == askNothing {
		// The other policy is set for each thread: a file can't set it any more.
		t.set("approval_policy", policy)
	}
	t.set("sandbox_mode", sandbox)
	t.set("check_for_update_on_startup", false)
	t.set("suppress_unstable_features_warning", true)
	t.set("project_doc_max_bytes", maxInstructions)
	// Wait for each server of tools, up to its time to start: the program would begin a turn
	// without the tools of one that takes longer than a second.
	t.set("mcp_optional_startup_grace_ms", 0)
	if provider := modelProvider(l.Env); provider != nil {
		t.set("model_provider", "sojourn")
		t.table(provider, "model_providers", "sojourn")
	}
	t.table(map[string]any{"enabled": false}, "analytics")
	t.table(map[string]any{"enabled": false}, "feedback")
	t.table(map[string]any{"persistence": "none"}, "history")
	// A shell snapshot is taken by a process outside any turn, and writes the
	// environment with its keys to disk.
	t.table(map[string]any{
		"shell_snapshot": false,
		// Both query the vendor's servers for their catalogues.
		"apps": false, "plugins": false,
		// Without it the tool by which the model asks its user is refused.
		"default_mode_request_user_input": true,
	}, "features")
	// Without this its own models don't see the profile's subagents.
	t.table(map[string]any{"hide_spawn_agent_metadata": false}, "features", "multi_agent_v2")
	servers := mcpServers(p, l)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		t.table(servers[name], "mcp_servers", name)
	}
	return t.String()
}

// modelProvider returns the model's address, if the environment has it: the
// program's built-in provider requires a login. The key stays in the environment.
func modelProvider(env map[string]string) map[string]any {
	if env[envBaseURL] == "" && env[envKey] == "" {
		return nil
	}
	return map[string]any{
		"name": "Sojourn", "base_url": first(env[envBaseURL], vendorURL), "env_key": envKey, "wire_api": "responses",
		"supports_websockets": false, "request_max_retries": retries, "stream_max_retries": retries,
	}
}

// mcpServers returns all servers in the agent's form.
func mcpServers(p adapters.Profile, l adapters.Launch) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, s := range profilefiles.Servers(p, l) {
		out[name] = mcpServer(s)
	}
	return out
}

func mcpServer(s adapters.MCPServer) map[string]any {
	fields := map[string]any{}
	if s.URL != "" {
		fields["url"] = s.URL
		if len(s.Headers) > 0 {
			fields["http_headers"] = s.Headers
		}
		return fields
	}
	fields["command"] = s.Command
	if len(s.Args) > 0 {
		fields["args"] = s.Args
	}
	if len(s.Env) > 0 {
		fields["env"] = s.Env
	}
	return fields
}

// toml writes the part of TOML that is needed here: values, then tables. The zero
// value is an empty file.
type toml struct{ values, tables strings.Builder }

func (t *toml) set(key string, value any) {
	fmt.Fprintf(&t.values, "%s = %s\n", tomlKey(key), tomlValue(value))
}

func (t *toml) table(fields map[string]any, name ...string) {
	keys := make([]string, len(name))
	for i, part := range name {
		keys[i] = tomlKey(part)
	}
	fmt.Fprintf(&t.tables, "\n[%s]\n", strings.Join(keys, "."))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&t.tables, "%s = %s\n", tomlKey(key), tomlValue(fields[key]))
	}
}

func (t *toml) String() string { return t.values.String() + t.tables.String() }

func tomlKey(key string) string {
	bare := key != "" && strings.IndexFunc(key, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
	if bare {
		return key
	}
	return basicString(key)
}

func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return basicString(v)
	case []string:
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = basicString(s)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]string:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, tomlKey(key)+" = "+basicString(v[key]))
		}
		return "{ " + strings.Join(items, ", ") + " }"
	}
	return fmt.Sprint(v) // booleans and numbers
}

// basicString quotes s as TOML does, and YAML's double quotes: like JSON, except
// for the delete character.
func basicString(s string) string {
	return strings.ReplaceAll(string(rawText(strings.ToValidUTF8(s, "�"))), "\x7f", `\u007f`)
}
