// Package sandboxtest has the tests that every sandbox provider must pass.
//
//	func TestConformance(t *testing.T) {
//		sandboxtest.Run(t, func(t *testing.T) sandboxtest.Bench {
//			return sandboxtest.Bench{Provider: …}
//		})
//	}
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/test/skip"
)

// Bench is the provider under test.
type Bench struct {
	// Provider must be new: it has no sandboxes.
	Provider sandbox.Provider
	// Reopen returns a second provider for the same sandboxes, like the worker's next
	// process. Default: the same Provider.
	Reopen func(t *testing.T) sandbox.Provider
	// InPlace reports whether a folder of this machine can be the workspace.
	InPlace bool
}

// Run runs the suite; setup is called once per test. The sandboxes need a
// POSIX shell.
func Run(t *testing.T, setup func(t *testing.T) Bench) {
	for name, test := range map[string]func(t *testing.T, b Bench){
		"lifecycle":     lifecycle,
		"bad specs":     badSpecs,
		"list":          list,
		"exec":          execute,
		"exec ends":     execEnds,
		"environment":   environment,
		"copy":          copyBoth,
		"copy selected": copySelected,
		"copy escapes":  copyEscapes,
		"in place":      inPlace,
		"shared":        shared,
		"terminate":     terminate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if b.Reopen == nil {
				b.Reopen = func(*testing.T) sandbox.Provider { return b.Provider }
			}
			test(t, b)
		})
	}
}

func create(t *testing.T, p sandbox.Provider, id string) sandbox.Sandbox {
	t.Helper()
	sb, err := p.Create(t.Context(), sandbox.Spec{ID: id, SessionID: "s1", Epoch: 3})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sb.Terminate(context.Background())) })
	return sb
}

func lifecycle(t *testing.T, b Bench) {
	_, err := b.Provider.Open(t.Context(), "none")
	require.ErrorIs(t, err, sandbox.ErrNotFound)
	sb := create(t, b.Provider, "one")
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, sandbox.StatusReady, info.Status)
	require.Equal(t, "one", info.SandboxID)
	require.Equal(t, "s1", info.SessionID)
	require.EqualValues(t, 3, info.Epoch)
	require.Nil(t, info.Exit, "alive")
	require.WithinDuration(t, time.Now(), info.LastHealthCheck, time.Minute)
	_, err = b.Provider.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s2"})
	require.ErrorIs(t, err, sandbox.ErrExists)

	again, err := b.Reopen(t).Open(t.Context(), "one")
	require.NoError(t, err)
	same, err := again.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, info.Paths, same.Paths)
	require.Equal(t, "s1", same.SessionID)

	require.NoError(t, again.Terminate(t.Context()))
	require.NoError(t, again.Terminate(t.Context()), "twice")
	info, err = sb.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, sandbox.StatusTerminated, info.Status)
	require.NotNil(t, info.Exit)
	_, err = b.Provider.Open(t.Context(), "one")
	require.ErrorIs(t, err, sandbox.ErrNotFound)
	_, err = sb.Exec(t.Context(), sandbox.Command{Argv: []string{"true"}})
	require.ErrorIs(t, err, sandbox.ErrTerminated)
}

func badSpecs(t *testing.T, b Bench) {
	for _, spec := range []sandbox.Spec{
		{SessionID: "s"},
		{ID: "../x", SessionID: "s"},
		{ID: ".x", SessionID: "s"},
		{ID: strings.Repeat("x", 97), SessionID: "s"},
	} {
		_, err := b.Provider.Create(t.Context(), spec)
		require.ErrorContains(t, err, `field "id"`)
	}
	_, err := b.Provider.Create(t.Context(), sandbox.Spec{ID: "a"})
	require.ErrorContains(t, err, `field "sessionId"`)
	for _, dir := range []string{"relative", "/no/such/folder", "/dev/null"} {
		_, err := b.Provider.Create(t.Context(), sandbox.Spec{ID: "a", SessionID: "s", Workspace: dir})
		require.ErrorContains(t, err, `field "workspace"`)
	}
	infos, err := b.Provider.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos, "no trace of a half-made sandbox")
}

func list(t *testing.T, b Bench) {
	for _, id := range []string{"b", "a", "c"} {
		create(t, b.Provider, id)
	}
	infos, err := b.Reopen(t).List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 3)
	for i, want := range []string{"a", "b", "c"} {
		require.Equal(t, want, infos[i].SandboxID)
		require.Equal(t, "s1", infos[i].SessionID)
		require.EqualValues(t, 3, infos[i].Epoch)
	}
}

// shared: a sandbox in another one, and one in that, have its workspace and homes of their
// own. The workspace ends with the first, and not with them.
func shared(t *testing.T, b Bench) {
	first := create(t, b.Provider, "first")
	within := func(id, shares string) sandbox.Sandbox {
		sb, err := b.Provider.Create(t.Context(), sandbox.Spec{ID: id, SessionID: "s2", Shares: shares})
		require.NoError(t, err)
		return sb
	}
	second := within("second", "first")
	third := within("third", "second")
	_, code := sh(t, first, "echo seen > file; touch ~/mine", "")
	require.Zero(t, code)
	for _, sb := range []sandbox.Sandbox{third, second} {
		info, err := sb.Info(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, info.Shares)
		out, code := sh(t, sb, "cat file; ls ~; echo "+sb.ID()+" > "+sb.ID(), "")
		require.Zero(t, code)
		require.Equal(t, "seen\n", out)
		require.NoError(t, sb.Terminate(t.Context()))
	}
	out, _ := sh(t, first, "cat second third", "")
	require.Equal(t, "second\nthird\n", out)

	_, err := b.Provider.Create(t.Context(), sandbox.Spec{ID: "a", SessionID: "s", Shares: "none"})
	require.ErrorIs(t, err, sandbox.ErrNotFound)
	_, err = b.Provider.Create(t.Context(), sandbox.Spec{ID: "a", SessionID: "s", Shares: "first", Workspace: "/srv"})
	require.ErrorContains(t, err, "exclude each other")
}

// sh runs a script until it exits.
func sh(t *testing.T, sb sandbox.Sandbox, script, stdin string) (out string, code int) {
	t.Helper()
	p, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", script}})
	require.NoError(t, err)
	_, err = io.WriteString(p.Stdin(), stdin)
	require.NoError(t, err)
	require.NoError(t, p.Stdin().Close())
	code, err = p.Wait(t.Context())
	require.NoError(t, err)
	// The output is readable after the exit too.
	raw, err := io.ReadAll(p.Stdout())
	require.NoError(t, err)
	require.NoError(t, p.Stdout().Close())
	require.NoError(t, p.Stderr().Close())
	return string(raw), code
}

func execute(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	out, code := sh(t, sb, "cat; exit 7", "through stdin")
	require.Equal(t, "through stdin", out)
	require.Equal(t, 7, code)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	out, _ = sh(t, sb, "pwd -P; cd; pwd -P", "")
	require.Equal(t, info.Paths.Workspace+"\n"+info.Paths.Home+"\n", out)
	p, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "echo $NEW >&2; pwd"}, Dir: "/", Env: []string{"NEW=value"}})
	require.NoError(t, err)
	raw, err := io.ReadAll(p.Stderr())
	require.NoError(t, err)
	require.Equal(t, "value\n", string(raw))
	raw, err = io.ReadAll(p.Stdout())
	require.NoError(t, err)
	require.Equal(t, "/\n", string(raw))
	_, err = p.Wait(t.Context())
	require.NoError(t, err)
	_, err = sb.Exec(t.Context(), sandbox.Command{Argv: []string{"no-such-program-anywhere"}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = sb.Exec(t.Context(), sandbox.Command{})
	require.ErrorContains(t, err, "Argv")
}

func execEnds(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	ctx, cancel := context.WithCancel(t.Context())
	for name, end := range map[string]func(p sandbox.Process) error{
		"context": func(sandbox.Process) error { cancel(); return nil },
		"kill":    func(p sandbox.Process) error { return p.Kill() },
	} {
		if name == "kill" {
			ctx = t.Context()
		}
		p, err := sb.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "sleep 1000 & wait"}})
		require.NoError(t, err)
		require.NoError(t, end(p))
		code, err := p.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 128+9, code)
		require.NoError(t, p.Kill(), "harmless afterwards")
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}

func environment(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	out, _ := sh(t, sb, "env", "")
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, "=")
		for _, prefix := range []string{"TEMPORAL_", "NATS_", "AWS_"} {
			require.Falsef(t, strings.HasPrefix(name, prefix), "%s is in the environment", name)
		}
	}
	require.Contains(t, out, "HOME="+info.Paths.Home+"\n")
	require.Contains(t, out, "TMPDIR="+info.Paths.Tmp+"\n")
	require.Contains(t, info.Env, "HOME="+info.Paths.Home)
}

// collect reads a whole copy, as path → "mode link-or-content".
func collect(t *testing.T, files iter.Seq2[sandbox.File, error]) map[string]string {
	t.Helper()
	out := map[string]string{}
	for f, err := range files {
		require.NoError(t, err)
		body := f.Link
		if f.Body != nil {
			raw, err := io.ReadAll(f.Body)
			require.NoError(t, err)
			body = string(raw)
		}
		out[f.Path] = fmt.Sprint(f.Mode, " ", body)
	}
	return out
}

func copyBoth(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	when := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	tree := []sandbox.File{
		{Path: "link", Mode: fs.ModeSymlink, Link: "dir/run.sh"},
		{Path: "dir", Mode: fs.ModeDir | 0o750},
		{Path: "dir/run.sh", Mode: 0o755, Body: strings.NewReader("echo ran"), ModTime: when},
		{Path: "dir/empty", Mode: 0o600},
		{Path: "sealed", Mode: fs.ModeDir | 0o555},
		{Path: "sealed/file", Mode: 0o444, Body: strings.NewReader("kept")},
		{Path: "up/link", Mode: fs.ModeSymlink, Link: "../dir"},
	}
	for _, area := range []sandbox.Area{sandbox.AreaHome, sandbox.AreaWorkspace, sandbox.AreaTmp, sandbox.AreaControl} {
		for i := range tree {
			if r, ok := tree[i].Body.(*strings.Reader); ok {
				_, _ = r.Seek(0, io.SeekStart)
			}
		}
		require.NoError(t, sb.CopyIn(t.Context(), area, sandbox.Files(tree...)))
		got := collect(t, sb.CopyOut(t.Context(), sandbox.Selection{Area: area, Paths: []string{"link", "dir", "sealed", "up"}}))
		require.Equal(t, map[string]string{
			"link": "Lrwxrwxrwx dir/run.sh", "dir": "drwxr-x--- ", "dir/run.sh": "-rwxr-xr-x echo ran", "dir/empty": "-rw------- ",
			"sealed": "dr-xr-xr-x ", "sealed/file": "-r--r--r-- kept", "up": "drwxr-xr-x ", "up/link": "Lrwxrwxrwx ../dir",
		}, got)
	}
	for f, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{"dir/run.sh"}}) {
		require.NoError(t, err)
		require.True(t, when.Equal(f.ModTime))
	}
	out, _ := sh(t, sb, "sh ./link", "")
	require.Equal(t, "ran\n", out)
	// An existing file is replaced, an existing symlink not followed.
	require.NoError(t, sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(sandbox.Text("link", "plain"))))
	out, _ = sh(t, sb, "cat link dir/run.sh", "")
	require.Equal(t, "plainecho ran", out)
	// From a file system.
	require.NoError(t, sb.CopyIn(t.Context(), sandbox.AreaWorkspace, FromFS(fstest.MapFS{"a/b/c": {Data: []byte("deep"), Mode: 0o640}})))
	out, _ = sh(t, sb, "cat a/b/c", "")
	require.Equal(t, "deep", out)
	// A file that breaks off leaves the existing file unchanged, and no other file.
	broken := errors.New("broken")
	torn := sandbox.Text("a/b/c", "")
	torn.Body = io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))
	require.ErrorIs(t, sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(torn)), broken)
	out, _ = sh(t, sb, "ls -A a/b; cat a/b/c", "")
	require.Equal(t, "c\ndeep", out)
	// An error of the source ends the copy.
	err := sb.CopyIn(t.Context(), sandbox.AreaHome, func(yield func(sandbox.File, error) bool) { yield(sandbox.File{}, broken) })
	require.ErrorIs(t, err, broken)
}

func copySelected(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	require.NoError(t, sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(
		sandbox.Text("a.jsonl", "one\ntwo\n"), sandbox.Text("node_modules/x", "x"), sandbox.Text("src/node_modules/y", "y"), sandbox.Text("src/z", "z"))))
	paths := func(sel sandbox.Selection) []string {
		sel.Area = sandbox.AreaWorkspace
		return slices.Sorted(maps.Keys(collect(t, sb.CopyOut(t.Context(), sel))))
	}
	require.Equal(t, []string{"a.jsonl", "src", "src/z"}, paths(sandbox.Selection{Exclude: []string{"node_modules"}}))
	require.Equal(t, []string{"src/z"}, paths(sandbox.Selection{Paths: []string{"src/z", "not/there"}}))
	got := collect(t, sb.CopyOut(t.Context(), sandbox.Selection{
		Area: sandbox.AreaWorkspace, Paths: []string{"a.jsonl", "src/z"}, From: map[string]int64{"a.jsonl": 4, "src/z": 9}}))
	require.Equal(t, map[string]string{"a.jsonl": "-rw-r--r-- two\n", "src/z": "-rw-r--r-- "}, got)
	for range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace}) {
		break // bodies need not be read
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range sb.CopyOut(ctx, sandbox.Selection{Area: sandbox.AreaWorkspace}) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func copyEscapes(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	_, code := sh(t, sb, "ln -s / root; ln -s ../../.. up; ln -s "+outside+" out; mkdir sub; ln -s . sub/here; mkfifo pipe", "")
	require.Zero(t, code)
	bad := []sandbox.File{
		sandbox.Text("../x", "x"), sandbox.Text("/etc/x", "x"), sandbox.Text("a/../../x", "x"), sandbox.Text("", "x"),
		sandbox.Text("root/tmp/x", "x"), sandbox.Text("up/x", "x"),
		{Path: "l1", Mode: fs.ModeSymlink, Link: "/etc/passwd"},
		{Path: "l2", Mode: fs.ModeSymlink, Link: "../x"},
		{Path: "sub/here/l3", Mode: fs.ModeSymlink, Link: "../../x"},
		{Path: "dev", Mode: fs.ModeDevice | 0o666},
	}
	for _, f := range bad {
		good := sandbox.Text("good", f.Path)
		err := sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(f, good))
		skipped, complete := errors.AsType[*sandbox.SkippedError](err)
		require.Truef(t, complete, "%q: %v", f.Path, err)
		require.Len(t, skipped.Files, 1)
		require.Equal(t, f.Path, skipped.Files[0].Path)
		out, _ := sh(t, sb, "cat good", "")
		require.Equal(t, f.Path, out, "the good part stays")
	}
	got := collect(t, sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace}))
	require.Equal(t, []string{"good", "out", "root", "sub", "sub/here", "up"}, slices.Sorted(maps.Keys(got)), "links are not followed, pipes left out")
	for _, p := range []string{"..", "../x", "/etc"} {
		for _, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace, Paths: []string{p}}) {
			require.ErrorIs(t, err, sandbox.ErrEscape)
		}
	}
	for f, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace, Paths: []string{"root/etc/passwd"}}) {
		require.Errorf(t, err, "%q was returned", f.Path)
	}
	// A link of the agent is replaced, its target unchanged.
	require.NoError(t, sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(sandbox.Text("out", "ours"))))
	raw, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "theirs", string(raw))
}

func inPlace(t *testing.T, b Bench) {
	if !b.InPlace {
		skip.Without(t, "this provider's sandboxes are not on this machine")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600))
	sb, err := b.Provider.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s", Workspace: dir})
	require.NoError(t, err)
	out, _ := sh(t, sb, "cat mine; echo theirs >made", "")
	require.Equal(t, "mine", out)
	require.NoError(t, sb.Terminate(t.Context()))
	require.FileExists(t, filepath.Join(dir, "mine"), "the user's folder stays")
	require.FileExists(t, filepath.Join(dir, "made"))
}

func terminate(t *testing.T, b Bench) {
	sb := create(t, b.Provider, "one")
	p, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "mkdir -p a/b; chmod 0 a/b a; setsid sleep 1000 & echo up; exec sleep 1000"}})
	require.NoError(t, err)
	_, err = io.ReadFull(p.Stdout(), make([]byte, 3))
	require.NoError(t, err)
	require.NoError(t, sb.Terminate(t.Context()))
	code, err := p.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 128+9, code)
	// The detached child had the output open too.
	_, err = io.ReadAll(p.Stdout())
	require.NoError(t, err)
	infos, err := b.Provider.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
}
