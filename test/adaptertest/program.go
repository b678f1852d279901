package adaptertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/skip"
)

// RunnerVariable is the variable that names the runner program for the tests.
const RunnerVariable = "SOJOURN_RUNNER_BIN"

// runnerProgram returns the runner, built once for all tests of this program.
var runnerProgram = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(RunnerVariable); given != "" {
		return filepath.Abs(given)
	}
	return buildRunner()
})

// buildRunner builds the program to a fixed path in the temporary folder, which later
// runs replace by a rename: processes that run the old one keep it.
func buildRunner() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sojourn-adaptertest-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	fresh := filepath.Join(dir, fmt.Sprintf("new-%d", os.Getpid()))
	build := exec.Command("go", "build", "-o", fresh, "./runner/cmd/sojourn-runner")
	build.Dir = root()
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the runner: %w\n%s", err, out)
	}
	program := filepath.Join(dir, "sojourn-runner")
	return program, os.Rename(fresh, program)
}

// root returns the repository, from the path at which this file was compiled.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// installed returns the folder to which make agents installs the programs.
func installed() string { return filepath.Join(root(), ".agents") }

// searchPath returns PATH with the repository's own programs first.
func searchPath() string {
	return strings.Join([]string{
		filepath.Join(installed(), "bin"), filepath.Join(installed(), "node_modules", ".bin"), os.Getenv("PATH"),
	}, string(filepath.ListSeparator))
}

// locate returns the agent's program, or skips the test.
func locate(t testing.TB, a Agent) string {
	t.Helper()
	program, err := a.Adapter.Locate(func(name string) string {
		if name == "PATH" {
			return searchPath()
		}
		return os.Getenv(name)
	})
	if errors.Is(err, adapters.ErrNotInstalled) {
		skip.Without(t, fmt.Sprintf("the agent's program: %v: make agents installs it", err))
	}
	require.NoError(t, err)
	return program
}
