package profiles

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// pluginParts are what a plugin's folder may have. The manifest and documents for
// people are not passed to an agent.
var pluginParts = []string{"rules", "skills", "agents", "commands", "mcp", "mcp.json", ".claude-plugin", "README.md", "LICENSE", "CHANGELOG.md"}

// plugins adds the parts of each plugin to the profile, for every agent. A name
// may be used once: a second one is an error.
func (r *reader) plugins(p *adapters.Profile) error {
	names, err := r.folders("plugins")
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := path.Join("plugins", name)
		if err := r.knownParts(dir); err != nil {
			return err
		}
		var plugin adapters.Profile
		if err := r.parts(dir, &plugin); err != nil {
			return err
		}
		if err := join(p, plugin); err != nil {
			return fmt.Errorf("folder %s: %w", dir, err)
		}
	}
	return nil
}

func (r *reader) knownParts(dir string) error {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		return fmt.Errorf("folder %s: %w", dir, err)
	}
	for _, e := range entries {
		if !slices.Contains(pluginParts, e.Name()) {
			return fmt.Errorf("file %s: no part of a plugin that all agents have; want one of %s",
				path.Join(dir, e.Name()), strings.Join(pluginParts, ", "))
		}
	}
	return nil
}

func join(p *adapters.Profile, plugin adapters.Profile) error {
	for _, err := range []error{
		add("rule", &p.Rules, plugin.Rules), add("skill", &p.Skills, plugin.Skills), add("agent", &p.Subagents, plugin.Subagents),
		add("command", &p.Commands, plugin.Commands), add("MCP server", &p.MCPServers, plugin.MCPServers),
		add("MCP server", &p.BundledMCP, plugin.BundledMCP),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func add[V any](what string, into *map[string]V, from map[string]V) error {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, taken := (*into)[name]; taken {
			return fmt.Errorf("%s %q is there already, in the profile or another plugin", what, name)
		}
		put(into, name, from[name])
	}
	return nil
}
