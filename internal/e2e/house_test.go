package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

// TestWorkspaceOfTheHouseIsRefused: no workspace opens to an agent what its
// host hides from it, by whatever path it is named.
func TestWorkspaceOfTheHouseIsRefused(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.MkdirAll(filepath.Join(settings, "below"), 0o700))
	copyFile(t, filepath.Join(shared.dir, "env"), filepath.Join(settings, "env"))
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "project"), 0o700))
	w := startWorker(t, "SOJOURN_ENV_FILE="+filepath.Join(settings, "env"), "HOME="+home)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(settings, link))
	for name, workspace := range map[string]string{
		"the env file's folder":             settings,
		"a folder that has it":              filepath.Dir(settings),
		"a folder below it":                 filepath.Join(settings, "below"),
		"a link to it":                      link,
		"the data folder":                   w.dataDir,
		"a folder that has the data folder": filepath.Dir(w.dataDir),
		"all sandboxes":                     filepath.Join(w.dataDir, "sandboxes"),
		"everything":                        "/",
		"the home":                          home,
		"a hidden folder of the home":       filepath.Join(home, ".ssh"),
		"what is not there":                 filepath.Join(home, "gone"),
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, session.Options{Workspace: workspace})
			turn := say(t, h, "TOOL bash: ls -a")
			require.ErrorContains(t, turn.Err(), "workspace: ")
			require.ErrorContains(t, turn.Err(), workspace)
			require.NoError(t, h.Close(testContext(t)))
			require.Empty(t, sandboxes(t, w))
		})
	}
	h := open(t, session.Options{Workspace: filepath.Join(home, "project")})
	require.NoError(t, say(t, h, "TOOL write: made.txt :: in place").Err())
	require.FileExists(t, filepath.Join(home, "project", "made.txt"))
	require.NoError(t, h.Close(testContext(t)))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
