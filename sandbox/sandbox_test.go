package sandbox_test

import (
	"encoding/json"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
)

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PATH": "/bin", "HOME": "/users/me", "KEY": "k", "TEMPORAL_ADDRESS": "x", "SOJOURN_DATA_DIR": "x"}
	got, err := sandbox.Environment(func(n string) string { return env[n] }, []string{" KEY", "UNSET", ""})
	require.NoError(t, err)
	require.Equal(t, []string{"PATH=/bin", "KEY=k"}, got)
	for _, name := range []string{"TEMPORAL_ADDRESS", "NATS_URL", "AWS_REGION", "SOJOURN_DATA_DIR"} {
		_, err := sandbox.Environment(func(string) string { return "" }, []string{name})
		require.ErrorContains(t, err, name)
	}
}

func TestMergeEnvLaterWins(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"A=2", "B=", "C=x=y"}, sandbox.MergeEnv([]string{"A=1", "B=", "bad", "=x"}, []string{"C=x=y", "A=2"}))
}

func TestFileCheck(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", ".", "..", "/a", "a/../b", "a//b", "a/", "a\x00b"} {
		require.ErrorIs(t, sandbox.Text(p, "").Check(), sandbox.ErrEscape, "%q", p)
	}
	require.NoError(t, sandbox.Text("a/b..c/.d", "").Check())
	require.NoError(t, sandbox.Text("n\xf6t/\xff\\:", "").Check(), "names are bytes")
	link := func(target string) error {
		return sandbox.File{Path: "a/b/l", Mode: fs.ModeSymlink, Link: target}.Check()
	}
	require.NoError(t, link("../../x"))
	require.NoError(t, link("x//./y\xff"))
	// If x is a link to the area itself, x/.. is outside.
	for _, target := range []string{"", "/x", "../../../x", "../../..", "x/..", "x/../..", "a\x00b"} {
		require.ErrorIs(t, link(target), sandbox.ErrEscape, "%q", target)
	}
	require.Error(t, sandbox.File{Path: "p", Mode: fs.ModeNamedPipe}.Check())
}

// The state as clients see it: sandboxId, status, restartCount,
// lastHealthCheck.
func TestR102SandboxState(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	raw, err := json.Marshal(sandbox.State{SandboxID: "b", Status: sandbox.StatusReady, RestartCount: 2, LastHealthCheck: at})
	require.NoError(t, err)
	require.JSONEq(t, `{"sandboxId":"b","status":"ready","restartCount":2,"lastHealthCheck":"2025-01-02T03:04:05Z"}`, string(raw))
}
