package gemini

import (
	"fmt"
	"maps"

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
		// The agent asks the host each time.
	default:
		return adapters.Command{}, fmt.Errorf("gemini: permission is %q, want allow, ask or deny", l.Permission)
	}
	if l.Model != "" {
		argv = append(argv, "--model", l.Model)
	}
	return adapters.Command{Argv: argv, Env: environment(l), Dir: l.Workspace}, nil
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
	return env
}
