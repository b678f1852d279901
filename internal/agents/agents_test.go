package agents

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/executable"
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

// Every user gets the same bytes, from whichever registry.
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

// copied returns a repository that has only this folder.
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

// layout is where the packages put the real programs, on a machine for which
// opencode has two variants.
var layout = map[string][]string{
	"claude":   {"@anthropic-ai/claude-code-some-os/claude"},
	"codex":    {"@openai/codex-some-os/vendor/triple/bin/codex"},
	"gemini":   {"@google/gemini-cli/bundle/gemini.js"},
	"opencode": {"opencode-a-os/bin/opencode", "opencode-b-os/bin/opencode"},
}

// pins are the versions that the agents must report.
var pins = map[string]string{"claude": "2.1.197", "codex": "0.169.0", "gemini": "0.61.0", "opencode": "1.18.33"}

const (
	all    = "claude 2.1.197, codex 0.169.0, gemini 0.61.0, opencode 1.18.33"
	broken = "#!/bin/sh\necho no postinstall >&2\nexit 1\n"
)

// npm returns a stand-in that installs programs which report the given versions,
// and launchers that are placeholders: the test is about the script, not about
// the network.
func npm(t *testing.T, answers map[string]string) (path string) {
	t.Helper()
	dir := t.TempDir()
	modules := filepath.Join(dir, "modules")
	for name, places := range layout {
		write(t, filepath.Join(modules, ".bin", name), broken)
		for i, place := range places {
			text := "#!/bin/sh\necho \"" + answers[name] + " (it says)\"\n"
			if i < len(places)-1 {
				text = broken // a variant that this machine can't run
			}
			write(t, filepath.Join(modules, place), text)
		}
	}
	write(t, filepath.Join(modules, "@openai/codex-some-os/vendor/triple/codex-path/rg"), broken)
	write(t, filepath.Join(dir, "npm"), "#!/bin/sh\nrm -rf node_modules\ncp -R '"+modules+"' node_modules\n")
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	executable.Write(t, file, []byte(text))
}

// but returns the pins with one of them changed.
func but(name, version string) map[string]string {
	out := maps.Clone(pins)
	out[name] = version
	return out
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
	out, err := install(t, root, npm(t, pins))
	require.NoError(t, err, out)
	require.Equal(t, "agents: installing "+all+" into .agents (npm ci)\n", out)
	out, err = install(t, root, npm(t, but("claude", "0.0.0")))
	require.NoError(t, err, out)
	require.Equal(t, "agents: "+all+" are in .agents already\n", out)
}

// .agents/bin/NAME starts the program itself, and rg is installed.
func TestInstallLinksWhatDoesTheWork(t *testing.T) {
	t.Parallel()
	root := copied(t)
	out, err := install(t, root, npm(t, pins))
	require.NoError(t, err, out)
	for name, places := range layout {
		for _, link := range []string{"bin", "node_modules/.bin"} {
			file := filepath.Join(root, ".agents", link, name)
			answer, err := exec.Command(file, "--version").CombinedOutput()
			require.NoError(t, err, name)
			require.Equal(t, pins[name]+" (it says)\n", string(answer))
		}
		target, err := os.Readlink(filepath.Join(root, ".agents", "bin", name))
		require.NoError(t, err)
		require.Equal(t, "../node_modules/"+places[len(places)-1], target)
	}
	require.FileExists(t, filepath.Join(root, ".agents", "bin", "rg"))
	require.NoDirExists(t, filepath.Join(root, ".agents", "home"))
}

// A missing link is restored, though the pins have not changed.
func TestInstallMendsWhatIsMissing(t *testing.T) {
	t.Parallel()
	root := copied(t)
	path := npm(t, pins)
	_, err := install(t, root, path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(root, ".agents", "bin", "codex")))
	out, err := install(t, root, path)
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(root, ".agents", "bin", "codex"))
}

func TestInstallRefusesAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, pin := range pins {
		root := copied(t)
		for range 2 { // a failed install is not taken for a successful one
			out, err := install(t, root, npm(t, but(name, "9.9.9")))
			require.Error(t, err)
			require.Contains(t, out, name+` --version says "9.9.9 (it says)", pinned is `+pin)
			require.Contains(t, out, "hint: ")
		}
	}
}

// An agent that has no program for this platform is named.
func TestInstallSaysWhoHasNoProgram(t *testing.T) {
	t.Parallel()
	path := npm(t, pins)
	modules := filepath.Join(strings.Split(path, string(os.PathListSeparator))[0], "modules")
	require.NoError(t, os.RemoveAll(filepath.Join(modules, "opencode-b-os")))
	out, err := install(t, copied(t), path)
	require.Error(t, err)
	require.Contains(t, out, "agents: no program of opencode 1.18.33 runs here\nhint: ")
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
