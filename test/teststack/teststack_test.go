package teststack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/executable"
)

// written writes a shell script.
func written(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sojourn-devstack")
	executable.Write(t, path, []byte("#!/bin/sh\n"+script))
	return path
}

// A stack that is built and exits is reported at once, in one line with the last line
// of its output.
func TestStackThatExits(t *testing.T) {
	t.Parallel()
	p := written(t, "echo starting\necho 'sojourn-devstack: port 4222 is taken' >&2\nexit 3\n")
	_, err := Start(p, t.TempDir(), "")
	require.EqualError(t, err, p+" does not start: exit status 3: sojourn-devstack: port 4222 is taken")
}

func TestStackThatIsNoProgram(t *testing.T) {
	t.Parallel()
	_, err := Start(filepath.Join(t.TempDir(), "sojourn-devstack"), t.TempDir(), "")
	require.ErrorContains(t, err, "sojourn-devstack does not start: ")
}

// An env file of an earlier stack is not taken for this one's.
func TestOldEnvFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "env")
	require.NoError(t, os.WriteFile(file, []byte("export NATS_URL='old'\nexport AWS_ENDPOINT_URL_S3='old'\n"), 0o600))
	_, err := Start(written(t, "exit 1"), dir, "")
	require.ErrorContains(t, err, "exit status 1")
	s, err := Start(written(t, `printf "export NATS_URL='new'\nexport AWS_ENDPOINT_URL_S3='http://x'\n" >"$4"; exec sleep 60`), dir, "")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NATS_URL": "new", "AWS_ENDPOINT_URL_S3": "http://x"}, s.Env)
	s.Stop(os.Kill)
	s.Stop(os.Kill) // calling it twice is allowed
}

// recorder is a test whose end is only recorded.
type recorder struct {
	testing.TB
	failed, skipped []any
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.failed = append(r.failed, args...); panic(r) }
func (r *recorder) Skip(args ...any)  { r.skipped = append(r.skipped, args...); panic(r) }

// get requests the stack as a test would.
func get(t *testing.T, s *Shared) (r *recorder) {
	t.Helper()
	r = &recorder{TB: t}
	defer func() { require.Equal(t, any(r), recover()) }()
	s.Get(r)
	return r
}

// A stack that is built and does not start fails every test that requests it; none is
// skipped.
func TestStackThatDoesNotStartFailsTheTests(t *testing.T) {
	p := written(t, "echo broken >&2; exit 1")
	t.Setenv(Variable, p)
	var s Shared
	defer s.Stop()
	for range 2 {
		r := get(t, &s)
		require.Empty(t, r.skipped)
		require.Len(t, r.failed, 1)
		require.EqualError(t, r.failed[0].(error), p+" does not start: exit status 1: broken")
	}
}

// A stack that is not built skips them, and in a strict run fails them.
func TestStackThatIsNotBuilt(t *testing.T) {
	t.Setenv(Variable, "")
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("go.mod", nil, 0o600))
	var s Shared
	t.Setenv("SOJOURN_TEST_STRICT", "")
	require.Equal(t, []any{"missing: bin/sojourn-devstack: make build makes it"}, get(t, &s).skipped)
	t.Setenv("SOJOURN_TEST_STRICT", "1")
	require.NotEmpty(t, get(t, &s).failed)
}
