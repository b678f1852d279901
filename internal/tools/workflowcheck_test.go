package tools

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const badPackage = "github.com/sojourn-run/sojourn/workflows/testdata/bad"

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "docker-compose.yml"))
	return dir
}

// workflowcheck returns what the tool reports, by function, with the repository's
// configuration or with none.
func workflowcheck(t *testing.T, configured bool, packages ...string) map[string]string {
	t.Helper()
	inShort(t, "make check runs the tool over the workflows")
	// Not `go tool -n`: of a tool that was never run it names a file that is gone.
	tool := filepath.Join(t.TempDir(), "workflowcheck")
	said, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "go.temporal.io/sdk/contrib/tools/workflowcheck").CombinedOutput()
	require.NoError(t, err, string(said))
	args := []string{"-test=false", "-single-line"}
	if configured {
		args = append(args, "-config", "workflowcheck.config.yaml")
	}
	check := exec.CommandContext(t.Context(), tool, append(args, packages...)...)
	check.Dir = root(t)
	var report bytes.Buffer
	check.Stdout, check.Stderr = &report, &report
	if err := check.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, 3, exit.ExitCode(), report.String())
	}
	return reasons(report.String())
}

var finding = regexp.MustCompile(`(?m)^\S+: (\S+) is non-deterministic, reason: (.*)$`)

func reasons(report string) map[string]string {
	found := map[string]string{}
	for _, m := range finding.FindAllStringSubmatch(report, -1) {
		found[m[1]] += m[2] + "\n"
	}
	return found
}

func TestWorkflowcheckReportsEveryPlantedFault(t *testing.T) {
	t.Parallel()
	found := workflowcheck(t, true, "./workflows/testdata/bad")
	planted := map[string]string{
		"Clock":       "calls non-deterministic function time.Now",
		"Identity":    "calls non-deterministic function github.com/google/uuid.NewString",
		"RawIdentity": "calls non-deterministic function github.com/google/uuid.New",
		"Environment": "calls non-deterministic function os.Getenv",
		"MapOrder":    "iterates over map",
		"Goroutine":   "starts goroutine",
		"Hidden":      "bad.stampAt is non-deterministic, reason: calls non-deterministic function time.Now",
		"Handler":     "calls non-deterministic function time.Now",
	}
	for function, reason := range planted {
		require.Contains(t, found[badPackage+"."+function], reason, function)
	}
	require.Len(t, found, len(planted), "what is allowed must not be reported")
}

// The configuration exists because of this: if the tool learns it, the
// configuration can be removed.
func TestWorkflowcheckIsBlindByItself(t *testing.T) {
	t.Parallel()
	found := workflowcheck(t, false, "./workflows/testdata/bad")
	require.Contains(t, found, badPackage+".Clock")
	for _, function := range []string{"Identity", "RawIdentity", "Environment"} {
		require.NotContains(t, found, badPackage+"."+function)
	}
}

func TestWorkflowsAreDeterministic(t *testing.T) {
	t.Parallel()
	require.Empty(t, workflowcheck(t, true, "./workflows/..."))
}
