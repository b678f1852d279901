package gemini

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// Command returns one long-lived process that speaks the protocol.
func (*Adapter) Command(l adapters.Launch) (adapters.Command, error) {
	if l.Program == "" || l.Home == "" {
		return adapters.Command{}, fmt.Errorf("gemini: command: program and home must be given")
	}
	argv := []string{l.Program, "--acp", "--skip-trust"}
	switch l.Permission {
	case adapters.PermissionAllow, "":
		argv = append(argv, "--yolo")
	case adapters.PermissionAsk, adapters.PermissionDeny:
		argv = append(argv, asking(l)...)
	default:
		return adapters.Command{}, fmt.Errorf("gemini: permission is %q, want allow, ask or deny", l.Permission)
	}
	if l.Model != "" {
		argv = append(argv, "--model", l.Model)
	}
	return adapters.Command{Argv: argv, Env: environment(l), Dir: l.Workspace}, nil
}

// askPolicy is the file with the rules of an agent that asks, in its configuration folder.
const askPolicy = "ask.toml"

// askRules go before those of the workspace's settings, by which it would allow its tools itself:
// an administrator's rules do.
const askRules = `[[rule]]
toolName = ["run_shell_command", "write_file", "replace", "web_fetch", "activate_skill", "discovered_tool_*", "mcp_*"]
decision = "ask_user"
priority = 900
modes = ["default", "autoEdit"]
`

// asking has the agent ask the host each time, whatever the workspace's own settings say, and
// start none of its servers. It is trusted all the same: the agent would start no server at all in
// a folder that is not, and read no instructions.
func asking(l adapters.Launch) []string {
	servers := slices.Sorted(maps.Keys(l.MCPServers))
	if len(servers) == 0 {
		servers = []string{l.SessionID} // a name that no workspace knows
	}
	return []string{
		"--approval-mode=default", "--admin-policy=" + path.Join(l.Home, configDir, askPolicy),
		"--allowed-mcp-server-names=" + strings.Join(servers, ","),
	}
}

// environment isolates the process: its home is this session's, and it connects
// only to the model.
func environment(l adapters.Launch) map[string]string {
	env := map[string]string{
		"HOME": l.Home,
		// The program would start itself again for a bigger heap, and the runner would
		// own the wrong process.
		"GEMINI_CLI_NO_RELAUNCH":   "true",
		"GEMINI_TELEMETRY_ENABLED": "false",
		"NO_COLOR":                 "1",
		"NO_BROWSER":               "true",
	}
	for name := range maps.Keys(env) {
		if name != "HOME" && l.Env[name] != "" {
			env[name] = l.Env[name]
		}
	}
	if l.Permission.Asks() {
		// The workspace's .env sets what is not set: the key must not go to another server.
		for _, name := range []string{"GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"} {
			env[name] = l.Env[name]
		}
	}
	return env
}
