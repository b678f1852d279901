package codex

import (
	"fmt"
	"path"

	"github.com/sojourn-run/sojourn/adapters"
)

// configDir is the agent's configuration folder in its home.
const configDir = ".codex"

// trust returns the setting by which the workspace's own settings allow tools and run hooks and
// servers, or not: they do while the agent does not ask anyway. Each process has that of its start.
func trust(l adapters.Launch) string {
	level := "trusted"
	if l.Permission.Asks() {
		level = "untrusted"
	}
	return "projects={" + tomlKey(l.Workspace) + "={trust_level=" + basicString(level) + "}}"
}

// Command returns one long-lived process that exchanges JSON-RPC lines.
func (*Adapter) Command(l adapters.Launch) (adapters.Command, error) {
	if l.Program == "" || l.Home == "" {
		return adapters.Command{}, fmt.Errorf("codex: command: program and home must be given")
	}
	switch l.Permission {
	case adapters.PermissionAllow, adapters.PermissionAsk, adapters.PermissionDeny, "":
	default:
		return adapters.Command{}, fmt.Errorf("codex: permission is %q, want allow, ask or deny", l.Permission)
	}
	return adapters.Command{
		Argv: []string{l.Program, "app-server", "-c", trust(l)},
		Env:  map[string]string{"HOME": l.Home, "CODEX_HOME": path.Join(l.Home, configDir)},
		Dir:  l.Workspace,
		// It runs the scripts of the models that call tools by scripts.
		Helpers: []string{"codex-code-mode-host"},
	}, nil
}
