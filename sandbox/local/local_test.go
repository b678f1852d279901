//go:build linux

package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/test/sandboxtest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// program is the runner, built once for all tests.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner")
	if err == nil {
		program = filepath.Join(dir, "sojourn-runner")
		build := exec.Command("go", "build", "-o", program, "github.com/sojourn-run/sojourn/runner/cmd/sojourn-runner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the runner:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func provider(t *testing.T, change ...func(*local.Options)) *local.Provider {
	t.Helper()
	data, err := os.MkdirTemp("", "data")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	return providerAt(t, data, change...)
}

func providerAt(t *testing.T, data string, change ...func(*local.Options)) *local.Provider {
	t.Helper()
	o := local.Options{DataDir: data, Runner: program, UserHome: "-", UnsafeLocal: true}
	for _, c := range change {
		c(&o)
	}
	p, err := local.New(t.Context(), o)
	require.NoError(t, err)
	return p
}

func TestConformance(t *testing.T) {
	t.Setenv("TEMPORAL_API_KEY", "house key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "house key")
	t.Setenv("NATS_URL", "house key")
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Bench {
		data, err := os.MkdirTemp("", "data")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(data) })
		return sandboxtest.Bench{
			Provider: providerAt(t, data),
			Reopen:   func(t *testing.T) sandbox.Provider { return providerAt(t, data) },
			InPlace:  true,
		}
	})
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]local.Options{
		"field DataDir: it is empty":                               {Runner: program},
		"the system allows 107: choose a shorter data folder":      {Runner: program, DataDir: filepath.Join(t.TempDir(), strings.Repeat("d", 100))},
		"field Runner: program /no/such/runner is not there":       {Runner: "/no/such/runner", DataDir: t.TempDir()},
		"SOJOURN_PASS_ENV: variable AWS_SESSION_TOKEN is never":    {Runner: program, DataDir: t.TempDir(), PassEnv: []string{"AWS_SESSION_TOKEN"}},
		"SOJOURN_PASS_ENV: variable TEMPORAL_API_KEY is never":     {Runner: program, DataDir: t.TempDir(), PassEnv: []string{"TEMPORAL_API_KEY"}},
		`SOJOURN_PASS_ENV: "KEY=value" is not the name of a varia`: {Runner: program, DataDir: t.TempDir(), PassEnv: []string{"KEY=value"}},
	} {
		_, err := local.New(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

func TestPassedVariablesOnly(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk", "OTHER_SECRET": "no"}
	p := provider(t, func(o *local.Options) {
		o.Getenv = func(name string) string { return env[name] }
		o.PassEnv = []string{"ANTHROPIC_API_KEY", "NOT_SET"}
	})
	sb, err := p.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s"})
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.Contains(t, info.Env, "ANTHROPIC_API_KEY=sk")
	require.NotContains(t, strings.Join(info.Env, "\n"), "OTHER_SECRET")
	require.NotContains(t, strings.Join(info.Env, "\n"), "NOT_SET")
}

// startSpec returns an agent as the worker starts it: a shell that executes its
// input.
func startSpec(info sandbox.Info, mode runner.IsolationMode) runner.StartSpec {
	return runner.StartSpec{
		Epoch: info.Epoch, Token: "t", Argv: []string{"sh"}, Env: info.Env, Dir: info.Paths.Workspace,
		Control: info.Paths.Control, Socket: info.Paths.Socket,
		Isolation: runner.IsolationSpec{Mode: mode, Hide: info.Paths.Hide, Keep: info.Paths.Keep, KeepReadOnly: info.Paths.KeepReadOnly},
	}
}

func begin(t *testing.T, p *local.Provider, mode runner.IsolationMode) (sandbox.Sandbox, *runner.Conn, runner.Status) {
	t.Helper()
	if mode == runner.IsolationRequire && p.Notice() != "" {
		skip.Without(t, p.Notice())
	}
	sb, err := p.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s", Epoch: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sb.Terminate(context.Background())) })
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	st, err := runner.Start(t.Context(), sb, info.Paths.Runner, startSpec(info, mode))
	require.NoError(t, err)
	c, err := runner.Attach(t.Context(), sb, info.Paths.Runner, info.Paths.Socket, "t", 1)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return sb, c, st
}

// A worker attaches to an agent whose tool has removed the workspace.
func TestAttachWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	p := provider(t)
	sb, c, _ := begin(t, p, runner.IsolationAuto)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, os.RemoveAll(info.Paths.Workspace))
	again, err := runner.Attach(t.Context(), sb, info.Paths.Runner, info.Paths.Socket, "t", 1)
	require.NoError(t, err)
	require.Equal(t, "alive", answer(t, again, "m1", "echo alive"))
	require.NoError(t, again.Close())
}

// answer runs a line in the agent's shell and returns its one line of output.
func answer(t *testing.T, c *runner.Conn, id, line string) string {
	t.Helper()
	ack, err := c.Input(t.Context(), id, []byte(line))
	require.NoError(t, err)
	for d, err := range c.Records(t.Context(), ack.Next) {
		require.NoError(t, err)
		if d.Record.Dir == event.DirOut {
			return d.Record.Line
		}
	}
	t.Fatalf("no answer to %q", line)
	return ""
}

func TestAgentThroughExec(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "id_rsa"), []byte("key"), 0o600))
	settings := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(settings, "env"), []byte("AWS_SECRET_ACCESS_KEY=key"), 0o600))
	p := provider(t, func(o *local.Options) { o.UserHome, o.Hide = home, []string{settings} })
	sb, c, st := begin(t, p, runner.IsolationRequire)
	require.True(t, st.Isolation.Mount)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	data := info.Paths.Hide[0]
	require.Equal(t, "sandboxes", answer(t, c, "1", "echo $(ls "+data+")"))
	require.Equal(t, "one", answer(t, c, "2", "echo $(ls "+data+"/sandboxes)"))
	require.Equal(t, "home tmp workspace", answer(t, c, "3", "echo $(ls "+data+"/sandboxes/one)"))
	require.Equal(t, "nothing:", answer(t, c, "4", "echo nothing:$(ls -A "+home+")"))
	require.Equal(t, "nothing:", answer(t, c, "8", "echo nothing:$(ls -A "+settings+")"))
	require.Equal(t, "written", answer(t, c, "5", "echo written >$HOME/f; echo >w; echo >$TMPDIR/t; cat $HOME/f"))
	require.Equal(t, "no socket", answer(t, c, "6", "test -e "+info.Paths.Socket+" || echo no socket"))
	require.NotContains(t, answer(t, c, "7", "echo $(env)"), "TEMPORAL_")
}

func TestR101Statuses(t *testing.T) {
	t.Parallel()
	p := provider(t)
	sb, _, st := begin(t, p, runner.IsolationAuto)
	status := func() sandbox.Status {
		info, err := sb.Info(t.Context())
		require.NoError(t, err)
		return info.Status
	}
	require.Equal(t, sandbox.StatusReady, status())
	require.NoError(t, syscall.Kill(st.Supervisor, syscall.SIGKILL))
	require.Eventually(t, func() bool { return status() == sandbox.StatusUnhealthy }, waitLong, waitStep)
	require.NoError(t, sb.Terminate(t.Context()))
	require.Equal(t, sandbox.StatusTerminated, status())
	require.EqualValues(t, "starting ready unhealthy terminated", fmt.Sprint(
		sandbox.StatusStarting, " ", sandbox.StatusReady, " ", sandbox.StatusUnhealthy, " ", sandbox.StatusTerminated))
}

func TestR102SandboxStateCountsRestarts(t *testing.T) {
	t.Parallel()
	p := provider(t)
	sb, c, _ := begin(t, p, runner.IsolationAuto)
	_, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, sandbox.StatusReady, info.Status, "an agent that was stopped leaves a healthy sandbox")
	require.Zero(t, info.RestartCount)
	require.NoError(t, c.Close())
	_, err = runner.Start(t.Context(), sb, info.Paths.Runner, startSpec(info, runner.IsolationAuto))
	require.NoError(t, err)
	info, err = sb.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, info.RestartCount)
	require.Equal(t, "one", info.State.SandboxID)
	require.NotZero(t, info.State.LastHealthCheck)
}

// Without namespaces too: processes that the agent has detached are found by
// their mark.
func TestTerminateLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, mode := range []runner.IsolationMode{runner.IsolationRequire, runner.IsolationNone} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p := provider(t)
			sb, c, st := begin(t, p, mode)
			fifo := filepath.Join(t.TempDir(), "alive")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			_, err := c.Input(t.Context(), "1", []byte("setsid sh -c 'echo up; exec sleep 1000' >"+fifo+" 2>&1 &"))
			require.NoError(t, err)
			f, err := os.Open(fifo)
			require.NoError(t, err)
			defer f.Close()
			in := bufio.NewReader(f)
			_, err = in.ReadString('\n')
			require.NoError(t, err)
			if mode == runner.IsolationNone {
				// The worst case: no supervisor is left to do it.
				require.NoError(t, syscall.Kill(st.Supervisor, syscall.SIGKILL))
			}
			require.NoError(t, sb.Terminate(t.Context()))
			_, err = in.ReadString('\n')
			require.Error(t, err, "end of file: no process holds the pipe")
		})
	}
}

// A workspace is visible to the agent, so it must not contain what is hidden.
func TestWorkspaceShowsNothingHidden(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(name string) string {
		dir := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		return dir
	}
	home, settings := at("home/user"), at("etc/settings")
	require.NoError(t, os.Symlink(settings, filepath.Join(top, "link")))
	require.NoError(t, os.Symlink(at("home/user/project"), filepath.Join(top, "project")))
	require.NoError(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	p := provider(t, func(o *local.Options) {
		o.UserHome, o.Hide = home, []string{settings, home, filepath.Join(top, "gone")}
	})
	create := func(dir string) (sandbox.Sandbox, error) {
		return p.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s", Workspace: dir})
	}
	for dir, want := range map[string]string{
		"relative":                          "is not an absolute path",
		filepath.Join(top, "gone"):          "can't be used",
		filepath.Join(top, "file"):          "is not a folder",
		"/":                                 "is or contains the worker's data folder",
		settings:                            "is or contains a folder that the worker hides from agents",
		at("etc"):                           "is or contains a folder that the worker hides from agents",
		at("etc/settings/below"):            "is inside a folder that the worker hides from agents",
		filepath.Join(top, "link"):          "is or contains a folder that the worker hides from agents",
		filepath.Join(top, "link", "below"): "is inside a folder that the worker hides from agents",
		home:                                "is or contains",
		at("home/user/.config/x"):           "is inside",
	} {
		_, err := create(dir)
		refused, ok := errors.AsType[*sandbox.WorkspaceError](err)
		require.True(t, ok, "%s: %v", dir, err)
		require.Equal(t, dir, refused.Dir)
		require.Contains(t, refused.Reason, want, dir)
		require.NotEmpty(t, refused.Want)
	}
	sb, err := create(filepath.Join(top, "project"))
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "project"), info.Paths.Workspace, "the real path, which no link can turn elsewhere")
	require.NoError(t, sb.Terminate(t.Context()))
}

// The runner's watch yields the changes in the workspace, also those before it
// began, until the caller stops.
func TestWatchYieldsChanges(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Minute)
	sb, err := provider(t).Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s", Epoch: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sb.Terminate(context.Background())) })
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(info.Paths.Workspace, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(info.Paths.Workspace, "quiet"), 0o700))
	write("quiet/a", "ignored")
	write("early", "before")
	spec := runner.WatchSpec{Dir: info.Paths.Workspace, Ignore: []string{"quiet"}, Since: began}
	var seen []string
	for c, err := range runner.Watch(t.Context(), sb, info.Paths.Runner, spec) {
		require.NoError(t, err)
		seen = append(seen, c.Path+" "+*c.Content)
		if c.Path == "late" {
			break
		}
		write("quiet/late", "since")
		require.NoError(t, os.Rename(filepath.Join(info.Paths.Workspace, "quiet/late"), filepath.Join(info.Paths.Workspace, "late")))
	}
	require.Equal(t, []string{"early before", "late since"}, seen)

	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range runner.Watch(ctx, sb, info.Paths.Runner, spec) {
		require.NoError(t, err)
		cancel()
	}
	require.Error(t, ctx.Err(), "its end is no error")
	cancel()
	spec.Dir = filepath.Join(info.Paths.Workspace, "gone")
	for _, err := range runner.Watch(t.Context(), sb, info.Paths.Runner, spec) {
		require.ErrorContains(t, err, "no such file")
	}
}

// A command run for the agent sees what the agent sees, and ends with all its
// children.
func TestRunIsShutIn(t *testing.T) {
	t.Parallel()
	for _, mode := range []runner.IsolationMode{runner.IsolationRequire, runner.IsolationNone} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p := provider(t)
			sb, _, _ := begin(t, p, mode)
			info, err := sb.Info(t.Context())
			require.NoError(t, err)
			run := func(script string) error {
				return runner.Run(t.Context(), sb, info.Paths.Runner, runner.RunSpec{
					Argv: []string{"sh", "-c", script}, Env: info.Env, Dir: info.Paths.Home, Isolation: startSpec(info, mode).Isolation,
				})
			}
			hidden := "! test -e " + info.Paths.Control
			if mode == runner.IsolationNone {
				hidden = "test -e " + info.Paths.Control
			}
			require.NoError(t, run(hidden+" && pwd >where && yes said | head -c 2000000"))
			where, err := os.ReadFile(filepath.Join(info.Paths.Home, "where"))
			require.NoError(t, err)
			require.Equal(t, info.Paths.Home, strings.TrimSpace(string(where)))

			exit, ok := errors.AsType[*runner.ExitError](run("yes much | head -c 100000 >&2; echo the end >&2; exit 7"))
			require.True(t, ok)
			require.Equal(t, 7, exit.Code)
			require.LessOrEqual(t, len(exit.Stderr), 1024)
			require.True(t, strings.HasSuffix(exit.Stderr, "much\nthe end"), exit.Stderr)

			fifo := filepath.Join(info.Paths.Home, "alive")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			held, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			require.NoError(t, err)
			defer held.Close()
			require.NoError(t, run("setsid sleep 1000 >alive 2>&1 &"))
			// Non-blocking: a writer would make this wait, or fail as not ready.
			left, err := io.ReadAll(held)
			require.NoError(t, err, "end of file: no process holds the pipe")
			require.Empty(t, left)
		})
	}
}

// removing is a content whose reading removes a folder.
type removing string

// Read implements io.Reader.
func (dir removing) Read([]byte) (int, error) {
	if err := os.RemoveAll(string(dir)); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// A file that can't be on the file system is skipped; what may concern any file ends the copy.
func TestCopyInEndsByWhatIsNotOfAFile(t *testing.T) {
	t.Parallel()
	sb, err := provider(t).Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s"})
	require.NoError(t, err)
	odd := sandbox.Text("d/"+strings.Repeat("n", 256), "x")
	folder := sandbox.File{Path: strings.Repeat("f", 256), Mode: fs.ModeDir | 0o755}
	err = sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(odd, folder, sandbox.Text("plain", "x")))
	skipped, is := errors.AsType[*sandbox.SkippedError](err)
	require.True(t, is, "%v", err)
	require.Len(t, skipped.Files, 2)
	require.Equal(t, []string{odd.Path, folder.Path}, []string{skipped.Files[0].Path, skipped.Files[1].Path})
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(info.Paths.Workspace, "plain"))

	gone := sandbox.Text("d/file", "")
	gone.Body = removing(filepath.Join(info.Paths.Workspace, "d"))
	err = sb.CopyIn(t.Context(), sandbox.AreaWorkspace, sandbox.Files(odd, gone, sandbox.Text("late", "x")))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, is = errors.AsType[*sandbox.SkippedError](err)
	require.False(t, is, "%v", err)
	require.NoFileExists(t, filepath.Join(info.Paths.Workspace, "late"))
}
