package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestWorkspaceOfTheHouseIsRefused: no workspace path, in whatever form, lets an agent
// read folders that its host hides from it.
func TestWorkspaceOfTheHouseIsRefused(t *testing.T) {
	skip.InShort(t, "of what is kept from an agent, TestAgentHasNoKeyToTheHouse and TestAgentSeesNoFolderOfTheHouse")
	inOwnNamespace(t)
	settings := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.MkdirAll(filepath.Join(settings, "below"), 0o700))
	copyFile(t, filepath.Join(shared.Dir, "env"), filepath.Join(settings, "env"))
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

// bundledProfile writes a store's only profile. It has a bundled MCP server with that
// install command and variable.
func bundledProfile(t *testing.T, store, install, value string) {
	t.Helper()
	dir := filepath.Join(store, "p", "mcp", "m")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	given := map[string]any{"start": []string{"node", "server.js"}, "env": map[string]string{"GIVEN": value}}
	if install != "" {
		given["install"] = []string{"/bin/sh", "-c", install}
	}
	server, err := json.Marshal(given)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.json"), server, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.js"), []byte(mcpServer), 0o600))
}

// profiled creates a session with that profile.
func profiled(t *testing.T, store string) *session.Handle {
	t.Helper()
	made := newWithProfile(t, store, "claude", "p")
	require.Zero(t, made.code, made.err)
	h, err := spaceOf(t).Client.Get(testContext(t), strings.TrimSpace(made.out))
	require.NoError(t, err)
	return h
}

// TestProfileNamesNoVariableOfTheHouse: a profile can't read the worker's credentials
// for Temporal, the stream and the archive.
func TestProfileNamesNoVariableOfTheHouse(t *testing.T) {
	inOwnNamespace(t)
	store := t.TempDir()
	w := startWorker(t, "SOJOURN_PROFILES="+store)
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "NATS_URL", "TEMPORAL_ADDRESS", "SOJOURN_PASS_ENV"} {
		t.Run(name, func(t *testing.T) {
			bundledProfile(t, store, "", "plain")
			h := profiled(t, store)
			bundledProfile(t, store, "", "x ${"+name+"} y")
			want := `profile "p": field bundledMcp["m"].env["GIVEN"]: variable ` + name + " is never given to agents"
			require.ErrorContains(t, say(t, h, "SAY never").Err(), want)
			require.Empty(t, sandboxes(t, w))
			require.NoError(t, h.Close(testContext(t)))
			refused(t, newWithProfile(t, store, "claude", "p"), 1, want, "correct the profile's files")
		})
	}
}

// TestInstallIsShutIn: the install command of a profile's MCP server sees no more of
// the host than the agent does.
func TestInstallIsShutIn(t *testing.T) {
	inOwnNamespace(t)
	dir := hostDir(t)
	secret := shared.Env["AWS_SECRET_ACCESS_KEY"]
	half := len(secret) / 2
	// The secret is in two halves, so that the search does not find itself.
	look := fmt.Sprintf(`
		all=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -v ^SOJOURN_SANDBOX=)
		printf '%%s' "$all" | grep -cE '^(TEMPORAL|NATS|AWS|SOJOURN)_|%s''%s'
		printf '%%s' "$all" | grep -c ^HOME=%s/sandboxes/
		test -e %s/secret || echo no secret
		ls -d /proc/[0-9]* | wc -l`, secret[:half], secret[half:], dir, dir)
	store := t.TempDir()
	bundledProfile(t, store, "{ "+look+"; } >seen.txt; setsid sleep 1000 >/dev/null 2>&1 &", "")
	w := startWorkerIn(t, dir, "SOJOURN_PROFILES="+store)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	if strings.Contains(w.Said(), "no security boundary") {
		skip.Without(t, "namespaces: "+w.Said())
	}
	h := profiled(t, store)
	require.NoError(t, say(t, h, "SAY installed").Err())
	found, err := filepath.Glob(filepath.Join(dir, "sandboxes", "*", "home", "*", "*", "*", "seen.txt"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	seen, err := os.ReadFile(found[0])
	require.NoError(t, err)
	lines := strings.Fields(strings.ReplaceAll(string(seen), "no secret", "no-secret"))
	require.Len(t, lines, 4, string(seen))
	require.Equal(t, "0", lines[0], "no process that it sees has a key")
	require.NotEqual(t, "0", lines[1], "the search finds what is there: its own environment")
	require.Equal(t, "no-secret", lines[2])
	require.Less(t, len(lines[3]), 2, "it sees its own processes only")
	out := shell(t, h, "ps ax | grep -c '[s]leep 1000'; true")
	require.Equal(t, "0", strings.TrimSpace(out), "the processes that it left have ended with it")
	require.NoError(t, h.Close(testContext(t)))
}

// TestNoNamespacesNoAgents: a worker that can't isolate agents does not start, unless
// it is configured to.
func TestNoNamespacesNoAgents(t *testing.T) {
	inOwnNamespace(t)
	setting, err := shared.NoNamespaces()
	require.NoError(t, err)
	dir := hostDir(t)
	w, err := spaceOf(t).StartWorker(t.Context(), dir, setting, "SOJOURN_UNSAFE_LOCAL=false")
	if err == nil {
		require.NoError(t, w.Stop())
	}
	require.ErrorContains(t, err, "agents can't be shut in on this machine: ")
	require.ErrorContains(t, err, "--unsafe-local")
	told := startWorkerIn(t, dir, setting, "SOJOURN_UNSAFE_LOCAL=true")
	require.Contains(t, told.Said(), "no security boundary")
	note := regexp.MustCompile(`(?m)^note sandboxes +host \S+: .*no security boundary`)
	require.Eventually(t, func() bool {
		return note.MatchString(runProgram(t, "sojourn", "", nil, "doctor").out)
	}, patience, tick, "Temporal knows of a worker a moment after it is ready")
}

// TestAgentOfRootHasFewCapabilities: the agent of a root worker has only the
// capabilities for files and processes, and can't get more.
func TestAgentOfRootHasFewCapabilities(t *testing.T) {
	skip.InShort(t, "of what is kept from an agent, TestAgentHasNoKeyToTheHouse and TestAgentSeesNoFolderOfTheHouse")
	inOwnNamespace(t)
	if os.Geteuid() != 0 {
		skip.Without(t, "root, whose worker has capabilities to drop")
	}
	setting, err := shared.NoNamespaces()
	require.NoError(t, err)
	for name, extra := range map[string][]string{"namespaces": nil, "none": {setting, "--unsafe-local"}} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, extra...)
			require.Contains(t, w.Said(), "the worker runs as root")
			h := open(t, session.Options{})
			out := shell(t, h, "sed -nE 's/^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):\\s*//p' /proc/self/status; "+
				"touch kept && chown 1:1 kept && echo owned; chattr +i kept && echo immutable; mknod disk b 7 0 && echo device; true")
			lines := strings.Fields(out)
			require.GreaterOrEqual(t, len(lines), 7, out)
			// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, AUDIT_WRITE.
			const few = "00000000200004fb"
			require.Equal(t, []string{"0000000000000000", few, few, few, "0000000000000000", "1", "owned"}, lines[:7])
			require.NotContains(t, out, "immutable\n")
			require.NotContains(t, out, "device\n")
			require.NoError(t, h.Close(testContext(t)))
		})
	}
}

// TestThePasswordOfNATSIsNotPrinted: whatever a program prints about a stream, usable
// or not, has no part of the secret in the stream's URL.
func TestThePasswordOfNATSIsNotPrinted(t *testing.T) {
	inOwnNamespace(t)
	const planted = "pl4nted"
	bare := strings.TrimPrefix(shared.Env["NATS_URL"], "nats://")
	gone := "127.0.0.1:1"
	for name, url := range map[string]string{
		"another's password":    "nats://me:" + planted + "@" + bare,
		"another's token":       "nats://" + planted + "@" + bare,
		"nobody there":          "nats://me:" + planted + "@" + gone,
		"several":               "nats://me:" + planted + "@" + gone + "," + planted + "@" + gone,
		"a bad escape":          "nats://me:" + planted + "%zz@" + gone,
		"no URL":                "nats://me:" + planted,
		"a comma in a password": "nats://me:" + planted + "," + planted + "@" + gone,
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			env := []string{"NATS_URL=" + url, "NATS_TOKEN="}
			for _, command := range [][]string{{"doctor"}, {"doctor", "--json"}, {"setup"}, {"tail", "no-such-session"}} {
				said := runProgram(t, "sojourn", "", env, command...)
				require.NotEmpty(t, said.out+said.err, command)
				require.NotContains(t, said.out+said.err, planted, command)
			}
			dir := t.TempDir()
			w, err := spaceOf(t).StartWorker(t.Context(), dir, env...)
			if err == nil {
				// A server without authentication accepts everybody.
				require.NoError(t, w.Stop())
				require.NotContains(t, w.Said(), planted)
				return
			}
			require.ErrorContains(t, err, "NATS")
			require.NotContains(t, err.Error(), planted)
		})
	}
}
