package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var startLine = regexp.MustCompile(`(?m)^ExecStart=\S+(.*)$`)

// The agents are not part of the worker: its end must not affect them.
func TestTheUnitEndsTheWorkerAlone(t *testing.T) {
	t.Parallel()
	unit := string(deployed(t, "sojourn-worker.service"))
	for _, line := range []string{"KillMode=process", "Restart=always", "EnvironmentFile=/etc/sojourn/worker.env"} {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(line)+`$`, unit)
	}
	require.Equal(t, []string{"ExecStart=/usr/local/bin/sojourn-worker", ""}, startLine.FindStringSubmatch(unit))
}

func TestSystemdTakesTheUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		without(t, "systemd-analyze")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	// systemd-analyze must find the program, which is not installed here.
	unit := startLine.ReplaceAll(deployed(t, "sojourn-worker.service"), []byte("ExecStart="+program))
	path := filepath.Join(t.TempDir(), "sojourn-worker.service")
	require.NoError(t, os.WriteFile(path, unit, 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Unknown", "%s", out)
}
