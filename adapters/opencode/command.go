package opencode

import (
	"fmt"
	"path"

	"github.com/sojourn-run/sojourn/adapters"
)

const (
	configDir = ".config/opencode"
	// readyLine is the beginning of the line with the server's address.
	readyLine = "opencode server listening on "
	// passwordVariable has the server's password.
	passwordVariable = "OPENCODE_SERVER_PASSWORD"
)

// Command returns the server of one session. If its port is taken it chooses
// another.
func (*Adapter) Command(l adapters.Launch) (adapters.Command, error) {
	if l.Program == "" || l.NativeID == "" || l.Home == "" || l.Workspace == "" {
		return adapters.Command{}, fmt.Errorf("opencode: command: program, native id, home and workspace must be given")
	}
	if _, err := permissionRules(l.Permission); err != nil {
		return adapters.Command{}, err
	}
	if l.Model != "" {
		if _, err := modelRef(l.Model); err != nil {
			return adapters.Command{}, err
		}
	}
	return adapters.Command{
		Argv: []string{l.Program, "serve", "--port", "0", "--hostname", "127.0.0.1", "--print-logs", "--log-level", "ERROR"},
		Env:  environment(l),
		Dir:  l.Workspace,
		HTTP: &adapters.HTTP{Ready: readyLine, Events: "/event", User: "opencode", PasswordEnv: passwordVariable},
	}, nil
}

// environment isolates the process: its folders are this session's, and it
// connects only to the model.
func environment(l adapters.Launch) map[string]string {
	return map[string]string{
		"HOME":                             l.Home,
		"XDG_CONFIG_HOME":                  path.Join(l.Home, ".config"),
		"XDG_DATA_HOME":                    path.Join(l.Home, ".local/share"),
		"XDG_STATE_HOME":                   path.Join(l.Home, ".local/state"),
		"XDG_CACHE_HOME":                   path.Join(l.Home, ".cache"),
		"OPENCODE_DISABLE_AUTOUPDATE":      "1",
		"OPENCODE_DISABLE_MODELS_FETCH":    "1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
	}
}

// rule is one of the agent's permission rules; the last that matches applies.
type rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     string `json:"action"`
}

// harmless are the tools that need no permission: they change nothing outside of
// the conversation, or ask themselves for what they do.
var harmless = []string{"glob", "grep", "list", "lsp", "question", "read", "skill", "task", "todoread", "todowrite"}

// permissionRules: with allow the agent never asks; with ask and deny it asks the
// host each time, and a person or the policy answers, so that the agent gets a
// refusal as text. A subagent may start subagents only if a rule covers that.
func permissionRules(p adapters.Permission) ([]rule, error) {
	switch p {
	case adapters.PermissionAllow, "":
		return []rule{{"*", "*", "allow"}, {"doom_loop", "*", "allow"}, {"external_directory", "*", "allow"}, {"task", "*", "allow"}}, nil
	case adapters.PermissionAsk, adapters.PermissionDeny:
		rules := []rule{{"*", "*", "ask"}}
		for _, tool := range harmless {
			rules = append(rules, rule{tool, "*", "allow"})
		}
		return rules, nil
	}
	return nil, fmt.Errorf("opencode: permission is %q, want allow, ask or deny", p)
}
