package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// shell has the agent run a command with its shell tool and returns the command's
// output: both streams, in their order.
func shell(t *testing.T, h *session.Handle, command string) string {
	t.Helper()
	require.NoError(t, say(t, h, "TOOL bash: exec 2>&1; "+command).Err())
	return lastOutput(t, h)
}

// isolated starts a worker with an env file, and a session whose sandbox is beside
// another one with a planted file. It skips the test if this machine can't isolate
// agents, which the worker reports at its start.
func isolated(t *testing.T) (w *worker, h *session.Handle, planted string) {
	t.Helper()
	w = startWorker(t, "SOJOURN_ENV_FILE="+filepath.Join(shared.Dir, "env"))
	if strings.Contains(w.Said(), "no security boundary") {
		skip.Without(t, "namespaces: "+w.Said())
	}
	other := open(t, session.Options{})
	require.NoError(t, say(t, other, "TOOL write: planted.txt :: of another session").Err())
	planted = filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0], "workspace", "planted.txt")
	require.FileExists(t, planted)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, other.Close(ctx))
	})
	h = open(t, session.Options{})
	require.Equal(t, "shut in", strings.TrimSpace(shell(t, h, "echo shut in")))
	return w, h, planted
}

// TestAgentHasNoKeyToTheHouse is law L8: the agent gets no credential by its
// environment, and none from what the machine shows of its processes.
func TestAgentHasNoKeyToTheHouse(t *testing.T) {
	inOwnNamespace(t)
	w, h, _ := isolated(t)
	// In two halves, and after everything is read: a command that searched for the
	// whole would find itself.
	secret := shared.Env["AWS_SECRET_ACCESS_KEY"]
	require.Greater(t, len(secret), 8)
	half := len(secret) / 2
	for _, where := range []string{"env", "cat /proc/[0-9]*/environ | tr '\\0' '\\n'", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"} {
		// SOJOURN_SANDBOX is left out: the variable that marks a sandbox's processes
		// names a folder.
		out := shell(t, h, "all=$({ "+where+"; } 2>/dev/null); printf '%s' \"$all\" | grep -v ^SOJOURN_SANDBOX= | "+
			"grep -cE '^(TEMPORAL|NATS|AWS|SOJOURN)_|"+secret[:half]+"'"+secret[half:]+"; echo counted")
		require.Equal(t, "0\ncounted", strings.TrimSpace(out), where)
	}
	require.Contains(t, shell(t, h, "env"), "PATH=", "the search can find something")

	out := shell(t, h, fmt.Sprintf("cat /proc/%d/environ 2>&1 | head -c 200; ls -d /proc/[0-9]* | wc -l; ls /proc/%d 2>&1", w.PID(), os.Getpid()))
	require.NotContains(t, out, "NATS_URL")
	require.Contains(t, out, "No such file", "neither the worker nor any other process of the host is visible")
	require.NoError(t, h.Close(testContext(t)))
}

// TestAgentSeesNoFolderOfTheHouse: the agent sees neither the data folder with its
// secret, nor the env file, other sandboxes, or the runner's folder and socket.
func TestAgentSeesNoFolderOfTheHouse(t *testing.T) {
	inOwnNamespace(t)
	w, h, planted := isolated(t)
	own := own(t, w, planted)
	socket, err := runner.SocketPath(w.dataDir, own)
	require.NoError(t, err)
	for _, path := range []string{
		filepath.Join(w.dataDir, "secret"), filepath.Join(w.dataDir, "host-id"), filepath.Join(w.dataDir, "bookmarks"),
		filepath.Join(shared.Dir, "env"), filepath.Join(shared.Dir, "devstack"), planted,
		filepath.Join(w.dataDir, "sandboxes", own, "control"), filepath.Join(w.dataDir, "sandboxes", own, "sandbox.json"), socket,
	} {
		_, err := os.Lstat(path)
		require.NoError(t, err, "it is there for us")
		out := shell(t, h, "test -e "+path+" && echo is there || echo is not there")
		require.Equal(t, "is not there", strings.TrimSpace(out), path)
	}
	// Everything of the data folder that can be found belongs to this sandbox.
	folder := filepath.Join(w.dataDir, "sandboxes", own)
	seen := shell(t, h, "find "+shared.Dir+" -type f -not -path '*/.claude/*' 2>/dev/null | head -50; echo end of list")
	for _, line := range strings.Split(strings.TrimSpace(seen), "\n") {
		require.True(t, line == "end of list" || strings.HasPrefix(line, folder+"/"), line)
	}
	// What is found is no way out either: no new file appears there.
	name := "escaped-" + uuid.NewString()
	shell(t, h, "mkdir -p "+w.dataDir+"/sandboxes && touch "+w.dataDir+"/sandboxes/"+name+" "+w.dataDir+"/"+name+"; true")
	require.NoFileExists(t, filepath.Join(w.dataDir, "sandboxes", name))
	require.NoFileExists(t, filepath.Join(w.dataDir, name))
	require.NoError(t, h.Close(testContext(t)))
}

// own returns the id of the sandbox without the planted file.
func own(t *testing.T, w *worker, planted string) string {
	t.Helper()
	for _, id := range sandboxes(t, w) {
		if !strings.Contains(planted, id) {
			return id
		}
	}
	require.Fail(t, "no sandbox of its own")
	return ""
}

// TestAgentInheritsNoDescriptor: neither a tool nor the agent has an open file of the
// worker or runner except its standard streams.
func TestAgentInheritsNoDescriptor(t *testing.T) {
	skip.InShort(t, "of what is kept from an agent, TestAgentHasNoKeyToTheHouse and TestAgentSeesNoFolderOfTheHouse")
	inOwnNamespace(t)
	w, h, _ := isolated(t)
	out := shell(t, h, "ls -l /proc/self/fd /proc/$PPID/fd /proc/1/fd 2>&1; echo listed")
	require.Contains(t, out, "listed")
	require.Contains(t, out, "/proc/self/fd:")
	home := filepath.Join(w.dataDir, "sandboxes")
	for _, line := range strings.Split(out, "\n") {
		_, target, isLink := strings.Cut(line, " -> ")
		if !isLink {
			continue
		}
		require.False(t, strings.HasPrefix(target, shared.Dir) && !strings.HasPrefix(target, home), line)
		for _, of := range []string{"/control/", "/spool", "inputs.jsonl", "secret"} {
			require.NotContains(t, target, of)
		}
	}
	require.NoError(t, h.Close(testContext(t)))
}
