package adapters

import (
	"maps"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/permission"
)

// Profile is what a team gives its agents beside the prompt, independent of any
// agent's file layout. Adapters turn it into files with ProfileFiles.
type Profile struct {
	// ID is the profile's folder name in the store.
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Model is used if the session sets none.
	Model string `json:"model,omitempty"`
	// Instructions is the text of CLAUDE.md, AGENTS.md, GEMINI.md.
	Instructions string `json:"instructions,omitempty"`
	// Rules are further instruction files, by name without extension.
	Rules map[string]string `json:"rules,omitempty"`
	// Skills are folders: skill name → path in the skill → content.
	Skills map[string]map[string]string `json:"skills,omitempty"`
	// Subagents and Commands are Markdown files with front matter, by name
	// without extension.
	Subagents  map[string]string    `json:"subagents,omitempty"`
	Commands   map[string]string    `json:"commands,omitempty"`
	MCPServers map[string]MCPServer `json:"mcpServers,omitempty"`
	// BundledMCP are MCP servers supplied as files, by server name.
	BundledMCP map[string]BundledMCP `json:"bundledMcp,omitempty"`
	// Workspace are the initial files of a fresh workspace.
	Workspace map[string]string `json:"workspace,omitempty"`
	// Permission is used if the session sets none.
	Permission Permission `json:"permission,omitempty"`
	// Permissions are rules by tool and pattern, tried before Permission.
	Permissions permission.Rules `json:"permissions,omitempty"`
	// PermissionDeadline answers what no person has answered in time.
	PermissionDeadline permission.Deadline `json:"permissionDeadline,omitzero"`
	// UnknownEffects say what follows for calls that were at work when their host or
	// runner was lost.
	UnknownEffects permission.EffectRules `json:"unknownEffects,omitempty"`
	// Park is used when the session has none. Default: an hour.
	Park permission.Park `json:"parkMs,omitempty"`
}

// Policy returns the profile's own part of the policy for permission requests.
func (p Profile) Policy() permission.Policy {
	return permission.Policy{Standing: p.Permission, Rules: p.Permissions, Deadline: p.PermissionDeadline, Park: p.Park, Effects: p.UnknownEffects}
}

// Parts are what a profile has for an agent, by name and without the content.
type Parts struct {
	// Instructions reports whether there are any.
	Instructions bool     `json:"instructions,omitempty"`
	Rules        []string `json:"rules,omitempty"`
	Skills       []string `json:"skills,omitempty"`
	Subagents    []string `json:"subagents,omitempty"`
	Commands     []string `json:"commands,omitempty"`
	// MCPServers has the bundled ones too.
	MCPServers []string `json:"mcpServers,omitempty"`
	// PermissionRules counts the rules that decide on the agent's calls.
	PermissionRules int `json:"permissionRules,omitempty"`
}

// Parts returns what the profile consists of, each list in order.
func (p Profile) Parts() Parts {
	servers := slices.Concat(names(p.MCPServers), names(p.BundledMCP))
	slices.Sort(servers)
	return Parts{
		Instructions: p.Instructions != "", Rules: names(p.Rules), Skills: names(p.Skills), Subagents: names(p.Subagents),
		Commands: names(p.Commands), MCPServers: slices.Compact(servers), PermissionRules: len(p.Permissions),
	}
}

func names[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// MCPServer is an MCP server that the agent connects to: a command on stdio,
// or a URL.
type MCPServer struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// BundledMCP is an MCP server whose files are part of the profile.
type BundledMCP struct {
	// Files are written below the server's own folder in the sandbox's home.
	Files map[string]string `json:"files"`
	// Install runs once in that folder when the sandbox is made; may be empty.
	Install []string `json:"install,omitempty"`
	// Start is the command line on stdio, run in that folder.
	Start []string          `json:"start"`
	Env   map[string]string `json:"env,omitempty"`
}

// Servers returns the profile's MCP servers in a sandbox with this home, the bundled ones too: a
// shell changes to their folder.
func (p Profile) Servers(home string) map[string]MCPServer {
	all := maps.Clone(p.MCPServers)
	if all == nil {
		all = map[string]MCPServer{}
	}
	for name, b := range p.BundledMCP {
		args := append([]string{"-c", `cd "$0" && exec "$@"`, path.Join(home, BundledDir(name))}, b.Start...)
		all[name] = MCPServer{Command: "/bin/sh", Args: args, Env: b.Env}
	}
	return all
}

// BundledDir returns the folder of a bundled MCP server's files, relative to the
// sandbox's home.
func BundledDir(server string) string { return ".sojourn/mcp/" + server }
