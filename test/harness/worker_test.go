package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The processes of a data folder are not those of another whose name begins alike:
// h1 is lost, and h16 is not.
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
