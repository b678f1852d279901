package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type lock struct {
	Packages map[string]struct {
		Version      string
		Resolved     string
		Integrity    string
		Dependencies map[string]string
	}
}

func read(t *testing.T, file string, v any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, v))
}

// Everyone gets the same bytes, from whichever registry they use.
func TestPinsAreExactAndNameNoRegistry(t *testing.T) {
	t.Parallel()
	var pins struct{ Dependencies map[string]string }
	read(t, "package.json", &pins)
	require.NotEmpty(t, pins.Dependencies)
	var l lock
	read(t, "package-lock.json", &l)
	require.Equal(t, pins.Dependencies, l.Packages[""].Dependencies)
	for name, version := range pins.Dependencies {
		require.Regexp(t, `^\d+\.\d+\.\d+$`, version, name)
		require.Equal(t, version, l.Packages["node_modules/"+name].Version)
	}
	for name, p := range l.Packages {
		require.Empty(t, p.Resolved, name)
		require.True(t, name == "" || strings.HasPrefix(p.Integrity, "sha512-"), name)
	}
}

// copied is a repository that has only this folder.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "internal", "agents")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range []string{"package.json", "package-lock.json", "install.sh"} {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), raw, 0o755))
	}
	return root
}

// npm is a stand-in that lays down a claude of the given version: the test is
// about the script, not about the network.
func npm(t *testing.T, version string) (path string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nmkdir -p node_modules/.bin\n" +
		"printf '#!/bin/sh\\necho \"" + version + " (Claude Code)\"\\n' >node_modules/.bin/claude\nchmod +x node_modules/.bin/claude\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "npm"), []byte(script), 0o755))
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

func install(t *testing.T, root, path string) (string, error) {
	t.Helper()
	cmd := exec.Command("/bin/sh", filepath.Join(root, "internal", "agents", "install.sh"))
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestInstallOnceThenSkip(t *testing.T) {
	t.Parallel()
	root := copied(t)
	out, err := install(t, root, npm(t, "2.1.197"))
	require.NoError(t, err, out)
	require.Equal(t, "agents: installing claude 2.1.197 into .agents (npm ci)\n", out)
	out, err = install(t, root, npm(t, "0.0.0"))
	require.NoError(t, err, out)
	require.Equal(t, "agents: claude 2.1.197 is in .agents already\n", out)
}

func TestInstallRefusesAnotherVersion(t *testing.T) {
	t.Parallel()
	root := copied(t)
	for range 2 { // a failed install is not taken for a good one
		out, err := install(t, root, npm(t, "2.1.198"))
		require.Error(t, err)
		require.Contains(t, out, `says "2.1.198 (Claude Code)", pinned is 2.1.197`)
		require.Contains(t, out, "hint: ")
	}
}

func TestInstallWithoutNPM(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, tool := range []string{"dirname", "cat", "sed", "mkdir", "rm", "cp"} {
		real, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(real, filepath.Join(bin, tool)))
	}
	out, err := install(t, copied(t), bin)
	require.Error(t, err)
	require.Contains(t, out, "agents: npm is not installed\nhint: install Node.js")
}
