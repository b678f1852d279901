package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/workspace"
)

// awaitFile waits for an event about a file. Such events follow the answer.
func awaitFile[P event.Payload](t *testing.T, h *session.Handle, path func(P) string, want string) P {
	t.Helper()
	var found P
	heardUntil(t, h, 0, first(func(p P) bool {
		found = p
		return path(p) == want
	}))
	return found
}

func TestR69FileEvents(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	created := func(p event.FileCreated) string { return p.Path }
	require.NoError(t, say(t, h, "TOOL write: notes/a.txt :: some text").Err())
	made := awaitFile(t, h, created, "notes/a.txt")
	require.Contains(t, *made.Content, "some text")
	sum := sha256.Sum256([]byte(*made.Content))
	require.Equal(t, hex.EncodeToString(sum[:]), made.SHA256)
	require.Equal(t, int64(len(*made.Content)), made.Size)

	require.NoError(t, say(t, h, `TOOL bash: printf other > notes/a.txt; printf '\000\001' > part; mv part raw`).Err())
	awaitFile(t, h, func(p event.FileModified) string { return p.Path + ": " + *p.Content }, "notes/a.txt: other")
	raw := awaitFile(t, h, created, "raw")
	require.Nil(t, raw.Content, "an event doesn't contain bytes that are no text")
	require.Equal(t, int64(2), raw.Size)

	require.NoError(t, say(t, h, "TOOL bash: rm -r notes").Err())
	gone := awaitFile(t, h, func(p event.FileDeleted) string { return p.Path }, "notes/a.txt")
	require.Equal(t, event.File{Path: "notes/a.txt"}, gone.File)
	require.NoError(t, h.Close(testContext(t)))
	all := events(t, h)
	// A busy machine may see more: the agent's temporary file, or one that is empty yet.
	require.Len(t, slices.DeleteFunc(payloads[event.FileCreated](all), func(p event.FileCreated) bool {
		return p.Path != "notes/a.txt" && p.Path != "raw"
	}), 2)
	require.Len(t, slices.DeleteFunc(payloads[event.FileDeleted](all), func(p event.FileDeleted) bool { return p.Path != "notes/a.txt" }), 1)
	requireParity(t, h.ID())
}

// TestR109WorkspaceWatching: changes of the workspace are events during the turn, text
// files with their content. Files that tools create for themselves are not.
func TestR109WorkspaceWatching(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	ctx := testContext(t)
	r, gate := runToGate(ctx, t, h, `TOOL bash: mkdir -p src .git node_modules/x dist build .claude; for d in .git node_modules/x dist build .claude; do echo x > $d/f; done; printf live > part; mv part src/a.txt; printf '\000\001' > part; mv part raw`)
	awaitFile(t, h, func(p event.FileCreated) string { return p.Path }, "src/a.txt")
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	require.NoError(t, h.Close(ctx))
	var live, ended bool
	for _, ev := range events(t, h) {
		switch p := ev.Payload.(type) {
		case event.QueryCompleted:
			ended = true
		case event.FileCreated:
			require.Contains(t, []string{"src/a.txt", "raw", "part"}, p.Path)
			if p.Path == "src/a.txt" {
				require.False(t, ended, "while the turn runs")
				require.False(t, live, "once")
				require.Equal(t, "live", *p.Content)
				live = true
			}
			require.True(t, p.Path != "raw" || p.Content == nil, "text only")
		}
	}
	require.True(t, live)
	requireParity(t, h.ID())
}

// look has the agent list its files, with the modes and contents that matter.
func look(t *testing.T, h *session.Handle) string {
	t.Helper()
	require.NoError(t, say(t, h, "TOOL bash: find . -type f | sort; cat kept.txt; ./run; cksum < raw").Err())
	return lastOutput(t, h)
}

// TestWorkspaceComesBack: files that the agent wrote outlive its sandbox and its host.
func TestWorkspaceComesBack(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, `TOOL bash: echo kept > kept.txt; echo x > gone.txt; printf '#!/bin/sh\necho it runs\n' > run; chmod 755 run; head -c 100000 /dev/urandom > raw`).Err())
	before := look(t, h)
	require.Contains(t, before, "it runs")
	require.Contains(t, before, "gone.txt")

	awaitIdle(t, h)
	require.NoError(t, h.Evict(testContext(t)))
	require.Eventually(t, func() bool { return len(sandboxes(t, w)) == 0 }, patience, tick)
	require.Equal(t, before, look(t, h), "after an eviction")
	require.NoError(t, say(t, h, "TOOL bash: rm gone.txt").Err())
	after := look(t, h)
	require.NotContains(t, after, "gone.txt")

	require.NoError(t, h.Close(testContext(t)))
	require.NoError(t, w.stop())
	startWorker(t)
	h, err := spaceOf(t).Client.Open(testContext(t), h.ID(), session.Options{})
	require.NoError(t, err)
	require.Equal(t, after, look(t, h), "after a close, on another host: what was deleted stays deleted")
	require.NoError(t, h.Close(testContext(t)))
}

// TestWorkspaceAfterHostLoss: the archived files of a lost host are restored on another
// one, byte for byte, with links and folders.
func TestWorkspaceAfterHostLoss(t *testing.T) {
	skip.InShort(t, "TestWorkspaceComesBack has the files on another host, TestKillHost loses one")
	withClaude(t)
	inOwnNamespace(t)
	lost := startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, `TOOL bash: mkdir -p empty deep; head -c 70000 /dev/urandom > deep/raw; printf x > "$(printf 'odd\377')"; ln -s deep/raw link; ln -s /etc out; printf '#!/bin/sh\necho it runs\n' > run; chmod 750 run; touch -d 2001-02-03 run`).Err())
	const list = `TOOL bash: find . -printf '%y %m %s %p %l\n' | grep -av ' ./out ' | sort | cksum; cksum < link; ./run; stat -c %Y run; ls`
	require.NoError(t, say(t, h, list).Err())
	before := lastOutput(t, h)
	require.Contains(t, before, "it runs")
	awaitIdle(t, h)
	require.NoError(t, lost.Kill())
	require.NoError(t, harness.EndAgents(lost.dataDir))
	startWorker(t)
	require.NoError(t, say(t, h, list).Err())
	after := lastOutput(t, h)
	require.Contains(t, before, "out", "the link to /etc")
	require.NotContains(t, after, "out")
	require.Equal(t, strings.Replace(before, "out\n", "", 1), after)
	require.NoError(t, h.Close(testContext(t)))
}

// TestWorkspaceOfTheUser: a folder that the user chose is used in place, and nothing of
// it is archived or in events.
func TestWorkspaceOfTheUser(t *testing.T) {
	onSharedHost(t)
	dir, err := os.MkdirTemp(shared.Dir, "mine-")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600))
	h := open(t, session.Options{Workspace: dir})
	require.NoError(t, say(t, h, "TOOL bash: echo made > made.txt").Err())
	awaitIdle(t, h)
	require.NoError(t, h.Evict(testContext(t)))
	require.NoError(t, say(t, h, "TOOL bash: rm made.txt; echo again > again.txt").Err())
	require.NoError(t, h.Close(testContext(t)))
	archived, err := workspace.Open(testContext(t), spaceOf(t).Archive, h.ID(), 0)
	require.NoError(t, err)
	require.False(t, archived.Known())
	all := events(t, h)
	require.Empty(t, payloads[event.FileCreated](all))
	require.FileExists(t, filepath.Join(dir, "mine"))
	require.FileExists(t, filepath.Join(dir, "again.txt"))
	require.NoFileExists(t, filepath.Join(dir, "made.txt"))
}

// TestFilesComeOut: files that the agent wrote in the sandbox's own workspace are
// listed and copied to the user, while the session is open and after it is closed.
// Nothing is written outside the folder that the user named.
func TestFilesComeOut(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: mkdir -p src/deep empty; printf one > src/deep/a.txt; printf '#!/bin/sh\\n' > run.sh; chmod 755 run.sh; "+
		"ln -s src/deep/a.txt link; ln -s /etc/passwd out").Err())
	awaitIdle(t, h)
	for _, state := range []string{"open", "closed"} {
		eventually(t, func(c *assert.CollectT) bool {
			var list []struct{ Path, Mode string }
			s := program(t, "files", h.ID(), "--json")
			require.Zero(c, s.code, s.err)
			require.NoError(c, json.Unmarshal([]byte(s.out), &list))
			var paths []string
			for _, f := range list {
				paths = append(paths, f.Path)
			}
			return assert.Equal(c, []string{"empty", "link", "out", "run.sh", "src", "src/deep", "src/deep/a.txt"}, paths, state)
		}, patience, tick, "the archive may be behind a turn")

		dir := filepath.Join(t.TempDir(), "result")
		s := runProgram(t, "sojourn", "", nil, "files", h.ID(), "-o", dir)
		require.Zero(t, s.code, s.err)
		require.Contains(t, s.err, "out is left out: it leads outside")
		content, err := os.ReadFile(filepath.Join(dir, "link"))
		require.NoError(t, err)
		require.Equal(t, "one", string(content), "by the link, %s", state)
		info, err := os.Stat(filepath.Join(dir, "run.sh"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
		require.DirExists(t, filepath.Join(dir, "empty"))
		require.NoFileExists(t, filepath.Join(dir, "out"))

		refused(t, runProgram(t, "sojourn", "", nil, "files", h.ID(), "-o", dir), 2, "is not empty", "-o wants a folder")
		require.NoError(t, h.Close(testContext(t)))
	}
	refused(t, runProgram(t, "sojourn", "", nil, "files", uuid.NewString()), 1, "not in the archive", "sojourn ls --all")
}
