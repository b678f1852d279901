package worker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// patience bounds waits for something without a signal; tick is how often it is
// checked.
const (
	patience = time.Minute
	tick     = 20 * time.Millisecond
)

// clean returns an environment that names no server.
func clean(home string) []string {
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "AWS_EC2_METADATA_DISABLED=true"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "SOJOURN_") || name == "NATS_URL" {
			env = append(env, name+"=")
		}
	}
	return env
}

// A server that does not answer is named in one line, with what to do, and the
// worker ends; no sandbox is made.
func TestServersAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, variable, scheme, hint string }{
		{"temporal", "TEMPORAL_ADDRESS", "", "TEMPORAL_ADDRESS"},
		{"nats", "NATS_URL", "nats://", "NATS_URL"},
		{"s3", "AWS_ENDPOINT_URL_S3", "http://", "AWS_ENDPOINT_URL_S3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{}
			if c.name != "temporal" {
				args = []string{"--env-file", servers.Get(t).File}
			}
			home, data, address := t.TempDir(), filepath.Join(t.TempDir(), "data"), teststack.ClosedAddress(t)
			p := spawn(t, program, append(clean(home), c.variable+"="+c.scheme+address), append(args, "--data-dir", data)...)
			require.Equal(t, 1, p.end(), p.stderr.String())
			requireTwoLines(t, p.stderr.String(), address)
			require.Contains(t, p.stderr.String(), c.hint)
			left, err := os.ReadDir(data)
			require.NoError(t, err)
			for _, e := range left {
				require.Contains(t, []string{"worker.lock", "host-id", "secret", "tmp"}, e.Name())
			}
		})
	}
}

// A worker reports when it is ready, and ends without an error when it is asked
// to.
func TestServesAndStops(t *testing.T) {
	t.Parallel()
	run, err := filepath.Abs(filepath.Join("..", "bin"))
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(run, "sojourn-runner")); err != nil {
		skip.Without(t, "bin/sojourn-runner: make build makes it")
	}
	data, err := os.MkdirTemp("", "sj")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(data)) })
	env := append(clean(t.TempDir()), "PATH="+run+":"+os.Getenv("PATH"))
	p := spawn(t, program, env, "--env-file", servers.Get(t).File, "--data-dir", data, "--json", "--log-level", "error")
	require.Contains(t, p.says(), `"ready":true`)
	code, _, stderr := runProgram(t, nil, "health", "--data-dir", data)
	require.Zero(t, code, stderr)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, p.end(), p.stderr.String())
	code, _, _ = runProgram(t, nil, "health", "--data-dir", data)
	require.Equal(t, 1, code)
}
