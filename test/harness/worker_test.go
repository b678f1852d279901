package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Agents doesn't return the processes of a folder whose name only has the same prefix:
// the agents of h16 aren't those of h1.
func TestAgentsOfOneFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), "SOJOURN_SANDBOX="+filepath.Join(dir, "h16", "sandboxes", "s-e1"))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		pids, err := Agents(filepath.Join(dir, "h16"))
		return err == nil && len(pids) == 1 && pids[0] == cmd.Process.Pid
	}, 10*time.Second, 10*time.Millisecond)
	other, err := Agents(filepath.Join(dir, "h1"))
	require.NoError(t, err)
	require.Empty(t, other)
}
