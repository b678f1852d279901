package acp

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// Command runs the program behind the recorder.
func (*Adapter) Command(l adapters.Launch) (adapters.Command, error) {
	if l.Program == "" || l.Home == "" || l.Runner == "" {
		return adapters.Command{}, fmt.Errorf("acp: command: program, home and runner must be given")
	}
	line, err := readCommandLine(l.Program)
	if err != nil {
		return adapters.Command{}, fmt.Errorf("acp: command %q: %w", l.Program, err)
	}
	switch l.Permission {
	case "", adapters.PermissionAllow, adapters.PermissionAsk, adapters.PermissionDeny:
		// The host answers the program's requests.
	default:
		return adapters.Command{}, fmt.Errorf("acp: permission is %q, want allow, ask or deny", l.Permission)
	}
	env := map[string]string{"HOME": l.Home, "NO_COLOR": "1"}
	for _, assignment := range line.env {
		if name, value, _ := strings.Cut(assignment, "="); name != FilesVariable {
			env[name] = value
		}
	}
	record := []string{l.Runner, "record", "--file", filepath.Join(l.Home, filepath.FromSlash(recordFile)), "--"}
	return adapters.Command{Argv: append(record, line.argv...), Env: env, Dir: l.Workspace}, nil
}
