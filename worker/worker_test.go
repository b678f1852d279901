package worker

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// runProgram runs the program in this process, with only vars as its environment.
func runProgram(t *testing.T, vars map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code = Run(ctx, args, func(name string) string { return vars[name] }, &out, &err)
	return code, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"supervise", "--help"}} {
		code, _, stderr := runProgram(t, nil, args...)
		require.Zero(t, code)
		for _, flag := range []string{"-capacity", "-data-dir", "-env-file", "-json", "-log-level", "-session-memory", "supervise"} {
			require.Contains(t, stderr, flag)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.env")
	require.NoError(t, os.WriteFile(bad, []byte("no assignment\n"), 0o600))
	for want, args := range map[string][]string{
		"-nope":                     {"--nope"},
		`unexpected argument "x"`:   {"x"},
		"--capacity is 0":           {"--capacity", "0"},
		"--capacity is -3":          {"--capacity", "-3"},
		"--session-memory is 1 MiB": {"--session-memory", "1"},
		"-capacity":                 {"--capacity", "many"},
		"-log-level":                {"--log-level", "loud"},
		"/none/env":                 {"--env-file", "/none/env"},
		bad + ":1":                  {"--env-file", bad},
		"flag needs an argument":    {"--data-dir"},
		`unexpected argument "run"`: {"supervise", "run"},
		"unsafe-local":              {"--unsafe-local=perhaps"},
	} {
		code, stdout, stderr := runProgram(t, nil, args...)
		require.Equal(t, 2, code, want)
		require.Empty(t, stdout)
		requireTwoLines(t, stderr, want)
	}
}

// requireTwoLines requires what happened in one line, and what to do in another.
func requireTwoLines(t *testing.T, stderr, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	require.Len(t, lines, 2, stderr)
	require.True(t, strings.HasPrefix(lines[0], "sojourn-worker: "))
	require.Contains(t, lines[0], want)
	require.True(t, strings.HasPrefix(lines[1], "sojourn-worker: hint: "), lines[1])
}

func TestFlagsAndEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	getenv := func(vars ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(vars); i += 2 {
				if vars[i] == name {
					return vars[i+1]
				}
			}
			return ""
		}
	}
	o, err := parseFlags(nil, getenv("SOJOURN_DATA_DIR", "rel/data", "SOJOURN_PASS_ENV", "A,B C"), nil)
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(o.dataDir))
	require.True(t, strings.HasSuffix(o.dataDir, filepath.Join("rel", "data")))
	require.Equal(t, []string{"A", "B", "C"}, o.passEnv())
	require.Positive(t, o.capacity)
	require.Empty(t, o.hide)
	o, err = parseFlags([]string{"--data-dir", dir, "--capacity", "3", "--json"}, getenv("SOJOURN_DATA_DIR", "/other"), nil)
	require.NoError(t, err)
	require.Equal(t, dir, o.dataDir, "the flag wins")
	require.Equal(t, 3, o.capacity)
	require.Equal(t, activities.DefaultMemory, o.memory)
	require.True(t, o.json)
	o, err = parseFlags([]string{"--data-dir", dir}, getenv("SOJOURN_SESSION_MEMORY", "128"), nil)
	require.NoError(t, err)
	require.Equal(t, activities.Memory(128<<20), o.memory)
	_, err = parseFlags([]string{"--data-dir", dir}, getenv("SOJOURN_SESSION_MEMORY", "a lot"), nil)
	require.ErrorContains(t, err, `SOJOURN_SESSION_MEMORY is "a lot"; it must be a number of MiB`)
	for given, want := range map[string]bool{"": false, "1": true, "true": true, "false": false} {
		o, err = parseFlags(nil, getenv("SOJOURN_DATA_DIR", dir, "SOJOURN_UNSAFE_LOCAL", given), nil)
		require.NoError(t, err)
		require.Equal(t, want, o.unsafeLocal, given)
	}
	_, err = parseFlags(nil, getenv("SOJOURN_DATA_DIR", dir, "SOJOURN_UNSAFE_LOCAL", "perhaps"), nil)
	require.ErrorContains(t, err, `SOJOURN_UNSAFE_LOCAL is "perhaps"; it must be true or false`)
	table := filepath.Join(dir, "prices.json")
	_, err = parseFlags(nil, getenv("SOJOURN_DATA_DIR", dir, "SOJOURN_PRICES", table), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(table, []byte(`{"m": {"input": 1}}`), 0o600))
	_, err = parseFlags(nil, getenv("SOJOURN_DATA_DIR", dir, "SOJOURN_PRICES", table), nil)
	require.ErrorContains(t, err, "SOJOURN_PRICES "+table+`: "m": input and output are wanted`)
	require.NoError(t, os.WriteFile(table, []byte(`{"m": {"input": 1, "output": 2}}`), 0o600))
	o, err = parseFlags(nil, getenv("SOJOURN_DATA_DIR", dir, "SOJOURN_PRICES", table), nil)
	require.NoError(t, err)
	require.Contains(t, o.prices, "m")
	env := filepath.Join(dir, "env")
	require.NoError(t, os.WriteFile(env, nil, 0o600))
	o, err = parseFlags([]string{"--env-file", env}, getenv(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{dir}, o.hide, "agents don't see our credentials")
}

func TestClaimKeepsTheHost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	one, err := claim(dir)
	require.NoError(t, err)
	require.Regexp(t, `^[a-zA-Z0-9-]+-[0-9a-f]{6}$`, one.id)
	require.Len(t, one.secret, 64)
	left := filepath.Join(one.temp, "left by a worker that was killed")
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	_, err = claim(dir)
	require.ErrorContains(t, err, "another worker runs on it")
	require.FileExists(t, left, "it is the other one's")
	release(t, one)
	two, err := claim(dir)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.Equal(t, one.id, two.id)
	require.Equal(t, one.secret, two.secret)
	release(t, two)
	for _, name := range []string{"host-id", "secret"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
	}
	other, err := claim(t.TempDir())
	require.NoError(t, err)
	defer other.lock.Close()
	require.NotEqual(t, one.id, other.id)
	require.NotEqual(t, one.secret, other.secret)
}

// A crash, or a full disk, in the middle of the first write leaves an empty file:
// neither an id nor a secret.
func TestClaimAfterATornWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"host-id", "secret"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	me, err := claim(dir)
	require.NoError(t, err)
	defer me.lock.Close()
	require.NotEmpty(t, me.id)
	require.Len(t, me.secret, 64)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 4, "lock, id, secret, folder of temporary files: %q", files)
}

// The lock is per process: it keeps a second worker out, and ends with the
// process, however it ends.
func TestLockEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := spawn(t, claiming, nil, dir)
	require.Equal(t, "claimed", first.says())
	_, err := claim(dir)
	require.ErrorContains(t, err, "another worker runs on it")
	code, _, stderr := runProgram(t, nil, "--data-dir", dir)
	require.Equal(t, 1, code)
	requireTwoLines(t, stderr, dir)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGKILL))
	first.end()
	me, err := claim(dir)
	require.NoError(t, err)
	release(t, me)
}

// release releases a lock at once. Closing only its file may hold it a moment
// longer: a child that another test is just starting shares it.
func release(t *testing.T, me identity) {
	t.Helper()
	require.NoError(t, syscall.Flock(int(me.lock.Fd()), syscall.LOCK_UN))
	require.NoError(t, me.lock.Close())
}

func supervisor(t *testing.T, role string, args ...string) (*child, func() []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	c := spawn(t, role, []string{traceVariable + "=" + file}, append([]string{"supervise"}, args...)...)
	return c, func() []string {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
}

// A worker that its supervisor keeps restarting is not healthy, nor is one that
// was killed when it was ready.
func TestHealthSeesACrashLoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	requireUnhealthy := func(why string) {
		t.Helper()
		code, stdout, stderr := runProgram(t, nil, "health", "--data-dir", dir)
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		requireTwoLines(t, stderr, why)
	}
	requireUnhealthy("no worker has run on it")
	crash := spawn(t, program, append(clean(t.TempDir()), "TEMPORAL_ADDRESS="+teststack.ClosedAddress(t)), "supervise", "--data-dir", dir)
	require.Eventually(t, func() bool { return strings.Contains(crash.stderr.String(), "again in") }, patience, tick)
	requireUnhealthy("")
	require.NoError(t, crash.cmd.Process.Signal(syscall.SIGTERM))
	crash.end()
	requireUnhealthy("no worker runs on it")

	me, err := claim(dir)
	require.NoError(t, err)
	requireUnhealthy("its worker is not ready")
	markReady(dir, me.id, slog.New(slog.DiscardHandler))
	code, stdout, _ := runProgram(t, nil, "health", "--data-dir", dir)
	require.Zero(t, code)
	require.Equal(t, "sojourn-worker is ready: host "+me.id+"\n", stdout)
	release(t, me)
	requireUnhealthy("no worker runs on it")
	me, err = claim(dir)
	require.NoError(t, err)
	defer me.lock.Close()
	requireUnhealthy("its worker is not ready")
}

// A worker that ends is restarted, each time after a longer wait.
func TestSuperviseRestarts(t *testing.T) {
	t.Parallel()
	c, trace := supervisor(t, crashing, "--capacity", "3")
	require.Eventually(t, func() bool { return strings.Contains(c.stderr.String(), "again in 400ms") }, patience, tick)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, c.end())
	said := c.stderr.String()
	require.Less(t, strings.Index(said, "again in 100ms"), strings.Index(said, "again in 200ms"))
	require.Contains(t, said, "exit status 1")
	require.GreaterOrEqual(t, len(trace()), 3)
	require.Equal(t, "started --capacity 3", trace()[0], "the flags are the child's")
}

// A panic's exit code is that of wrong flags.
func TestSuperviseRestartsBehindAPanic(t *testing.T) {
	t.Parallel()
	c, _ := supervisor(t, panicking)
	require.Eventually(t, func() bool { return strings.Contains(c.stderr.String(), "again in 200ms") }, patience, tick)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, c.end())
}

func TestSupervisePassesSignalsOn(t *testing.T) {
	t.Parallel()
	c, trace := supervisor(t, staying)
	require.Equal(t, "child is up", c.says())
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, c.end())
	require.Equal(t, []string{"started", "told to stop"}, trace())
	require.NotContains(t, c.stderr.String(), "again in")
}

func TestIdleLeaseSetting(t *testing.T) {
	t.Parallel()
	parse := func(value string) (options, error) {
		return parseFlags([]string{"--data-dir", t.TempDir()}, func(name string) string {
			if name == "SOJOURN_IDLE_LEASE" {
				return value
			}
			return ""
		}, nil)
	}
	for value, want := range map[string]time.Duration{"": time.Hour, "90m": 90 * time.Minute, "1s": time.Second} {
		o, err := parse(value)
		require.NoError(t, err)
		require.Equal(t, want, o.idleLease)
	}
	for _, value := range []string{"an hour", "3600", "0s", "-1h"} {
		_, err := parse(value)
		require.ErrorContains(t, err, "SOJOURN_IDLE_LEASE is \""+value+"\"")
		require.ErrorAs(t, err, &wrongUsage{})
	}
}

func TestVersioningSettings(t *testing.T) {
	t.Parallel()
	parse := func(deployment, build, sessions string) (options, error) {
		env := map[string]string{"TEMPORAL_DEPLOYMENT_NAME": deployment, "TEMPORAL_WORKER_BUILD_ID": build, "SOJOURN_VERSIONING": sessions}
		return parseFlags([]string{"--data-dir", t.TempDir()}, func(name string) string { return env[name] }, nil)
	}
	o, err := parse("", "", "")
	require.NoError(t, err)
	require.False(t, o.versioning.deployment().UseVersioning)
	for given, want := range map[string]workflow.VersioningBehavior{
		"": workflow.VersioningBehaviorAutoUpgrade, "auto-upgrade": workflow.VersioningBehaviorAutoUpgrade, "pinned": workflow.VersioningBehaviorPinned,
	} {
		o, err := parse("agents", "v7", given)
		require.NoError(t, err)
		require.Equal(t, want, o.versioning.sessions)
		require.Equal(t, "v7", o.versioning.deployment().Version.BuildID)
	}
	for _, bad := range []struct{ deployment, build, sessions, want string }{
		{"agents", "", "", `TEMPORAL_WORKER_BUILD_ID is not set; it is the id of this worker's build in the deployment "agents"`},
		{"", "v7", "", `TEMPORAL_DEPLOYMENT_NAME is not set; it is the name of the worker deployment that has the build "v7"`},
		{"", "", "pinned", "TEMPORAL_DEPLOYMENT_NAME is not set"},
		{"agents", "v7", "sometimes", `SOJOURN_VERSIONING is "sometimes"; it must be auto-upgrade or pinned`},
	} {
		_, err := parse(bad.deployment, bad.build, bad.sessions)
		require.ErrorContains(t, err, bad.want)
		require.ErrorAs(t, err, &wrongUsage{})
	}
}
