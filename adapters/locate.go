package adapters

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/sojourn-run/sojourn/sandbox"
)

// FindProgram finds an agent's program for Locate: the path in the environment's
// variable if that is set, else the program of that name in PATH. Relative
// folders of PATH are ignored. Errors wrap ErrNotInstalled and end with what to
// do.
func FindProgram(getenv func(string) string, variable, name, install string) (string, error) {
	if path := getenv(variable); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%w: %s is %s, which is no program", ErrNotInstalled, variable, path)
		}
		return filepath.Abs(found)
	}
	found, err := sandbox.LookPath(name, getenv("PATH"))
	if err != nil {
		return "", fmt.Errorf("%w: %s, or set %s to its path", ErrNotInstalled, install, variable)
	}
	return found, nil
}
