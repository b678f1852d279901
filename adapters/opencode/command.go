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
	permission, err := permissionSettings(l.Permission)
	if err != nil {
		return adapters.Command{}, err
	}
	if l.Model != "" {
		if _, err := modelRef(l.Model); err != nil {
			return adapters.Command{}, err
		}
	}
	env := environment(l)
	env[permissionVariable] = permission
	if l.Permission.Asks() {
		// Rules of the workspace's settings for an agent go before those of the process, and
		// its servers and plugins run unasked.
		env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
	}
	return adapters.Command{
		Argv: []string{l.Program, "serve", "--port", "0", "--hostname", "127.0.0.1", "--print-logs", "--log-level", "ERROR"},
		Env:  env,
		Dir:  l.Workspace,
		HTTP: &adapters.HTTP{Ready: readyLine, Events: "/event", User: "opencode", PasswordEnv: passwordVariable},
	}, nil
}

// environment isolates the process: its folders are this session's, and it
// connects only to the model.
func environment(l adapters.Launch) map[string]string {
	env := map[string]string{
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
	// Before a workspace's plugins are loaded, and so before it answers at all, the program
	// installs a package into .opencode. Where it can't, npm's own pauses between its three
	// tries are more than a minute.
	for name, milliseconds := range map[string]string{
		"npm_config_fetch_retry_mintimeout": "500", "npm_config_fetch_retry_maxtimeout": "2000",
	} {
		if _, given := l.Env[name]; !given {
			env[name] = milliseconds
		}
	}
	return env
}
