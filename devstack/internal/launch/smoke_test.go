package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The smoke tests run a devstack that is already built, as a separate process, so
// that no test links the Temporal server.
const binaryVariable = "SOJOURN_DEVSTACK_BIN"

// patient bounds the wait for a loaded machine; it does not assert speed.
const patient = 60 * time.Second

// devstack is one run of the program.
type devstack struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *bytes.Buffer
	args   []string
}

// command prepares a run on the folder dir, with free ports unless more says
// otherwise.
func command(t *testing.T, dir string, more ...string) *devstack {
	binary := os.Getenv(binaryVariable)
	if binary == "" {
		without(t, "a built sojourn-devstack: "+binaryVariable+" names it")
	}
	args := append([]string{
		"--data-dir", filepath.Join(dir, "data"), "--env-file", filepath.Join(dir, "env"),
		"--temporal-port", "0", "--ui-port", "0", "--nats-port", "0", "--s3-port", "0", "--json",
	}, more...)
	d := &devstack{cmd: exec.Command(binary, args...), stderr: &bytes.Buffer{}, args: args}
	d.cmd.Stderr = d.stderr
	return d
}

// begin starts a devstack and returns when it reports that it is ready.
func begin(t *testing.T, dir string, more ...string) (*devstack, Report) {
	d := command(t, dir, more...)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	d.stdout = bufio.NewReader(out)
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	watchdog := time.AfterFunc(patient, func() { _ = d.cmd.Process.Kill() })
	defer watchdog.Stop()
	line, err := d.stdout.ReadBytes('\n')
	if err != nil {
		_ = d.cmd.Wait() // Its standard error is complete only then.
		require.NoError(t, err, "not ready: %s", d.stderr)
	}
	var r Report
	require.NoError(t, json.Unmarshal(line, &r), "%s", line)
	return d, r
}

// end stops a devstack in order and requires exit code 0 and no further output.
func (d *devstack) end(t *testing.T, sig os.Signal) {
	require.NoError(t, d.cmd.Process.Signal(sig))
	watchdog := time.AfterFunc(patient, func() { _ = d.cmd.Process.Kill() })
	defer watchdog.Stop()
	rest, err := io.ReadAll(d.stdout)
	require.NoError(t, err)
	require.Empty(t, string(rest), "standard output is for the report only")
	require.NoError(t, d.cmd.Wait(), "%s", d.stderr)
}

// fail runs a devstack that must end by itself, and returns its output.
func fail(t *testing.T, code int, dir string, more ...string) string {
	d := command(t, dir, more...)
	watchdog := time.AfterFunc(patient, func() { _ = d.cmd.Process.Kill() })
	defer watchdog.Stop()
	_ = d.cmd.Run()
	require.Equal(t, code, d.cmd.ProcessState.ExitCode(), "%s", d.stderr)
	require.Equal(t, 2, strings.Count(d.stderr.String(), "\n"), "one line and a hint: %s", d.stderr)
	return d.stderr.String()
}

// source reads a settings file the way scripts do.
func source(t *testing.T, file string) map[string]string {
	out, err := exec.CommandContext(t.Context(), "env", "-i", "sh", "-ec", `set -a; . "$0"; env`, file).Output()
	require.NoError(t, err)
	vars := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[name] = value
	}
	return vars
}

func TestSmokeEverythingAnswersAndKeysStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, r := begin(t, dir)
	require.Equal(t, d.cmd.Process.Pid, r.PID)
	vars := source(t, r.EnvFile)
	for _, v := range r.Env(Credentials{vars["AWS_ACCESS_KEY_ID"], vars["AWS_SECRET_ACCESS_KEY"], vars["NATS_TOKEN"]}) {
		require.Equal(t, v.Value, vars[v.Name], v.Name)
		require.NotEmpty(t, v.Value, v.Name)
	}
	requireAnswers(t, r)
	d.end(t, syscall.SIGTERM)
	require.NotContains(t, d.stderr.String(), "level=", "an orderly run has nothing to complain about")
	require.NoFileExists(t, r.EnvFile, "settings of a stack that is gone")

	d, r = begin(t, dir)
	again := source(t, r.EnvFile)
	require.Equal(t, vars["AWS_ACCESS_KEY_ID"], again["AWS_ACCESS_KEY_ID"])
	require.Equal(t, vars["AWS_SECRET_ACCESS_KEY"], again["AWS_SECRET_ACCESS_KEY"])
	requireAnswers(t, r)
	d.end(t, syscall.SIGINT)
}

func requireAnswers(t *testing.T, r Report) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	status, body := get(ctx, t, r.UIURL+"/namespaces/"+r.TemporalNamespace+"/workflows")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<html", "the Web UI's page")

	status, body = get(ctx, t, r.UIURL+"/api/v1/namespaces/"+r.TemporalNamespace)
	require.Equal(t, http.StatusOK, status, "the Web UI reaches the frontend: %s", body)
	require.Contains(t, body, `"workflowExecutionRetentionTtl": "259200s"`)

	status, body = get(ctx, t, r.UIURL+"/api/v1/settings")
	require.Equal(t, http.StatusOK, status)
	for _, dialog := range []string{"Signal", "Update", "Terminate", "Cancel", "Reset", "Pause"} {
		require.Contains(t, body, `"Workflow`+dialog+`Disabled":false`)
	}
	require.Contains(t, body, `"DisableWriteActions":false`)

	status, body = get(ctx, t, r.UIURL+"/api/v1/namespaces/"+r.TemporalNamespace+"/search-attributes")
	require.Equal(t, http.StatusOK, status)
	for _, name := range []string{"SojournStatus", "SojournTitle", "SojournTags", "SojournCostUSD", "SojournLastActivity"} {
		require.Contains(t, body, name)
	}

	status, body = get(ctx, t, r.S3Endpoint+"/"+r.Bucket)
	require.Equal(t, http.StatusForbidden, status, "the gateway wants a signature")
	require.Contains(t, body, "<Code>AccessDenied</Code>")

	require.Contains(t, firstLine(ctx, t, strings.TrimPrefix(r.NATSURL, "nats://")), `"jetstream":true`)
	require.NoError(t, connect(ctx, t, r.TemporalAddress).Close())
}

func get(ctx context.Context, t *testing.T, url string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func connect(ctx context.Context, t *testing.T, address string) net.Conn {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func firstLine(ctx context.Context, t *testing.T, address string) string {
	line, err := bufio.NewReader(connect(ctx, t, address)).ReadString('\n')
	require.NoError(t, err)
	return line
}

// The Temporal server by itself waits two minutes for such a client.
func TestSmokeStopsDespiteASilentClient(t *testing.T) {
	t.Parallel()
	d, r := begin(t, t.TempDir())
	connect(t.Context(), t, r.TemporalAddress)
	d.end(t, syscall.SIGTERM)
}

func TestSmokeSecondStackOnAFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, r := begin(t, dir)
	require.Contains(t, fail(t, ExitFailed, dir), "is in use by another devstack (process ")
	require.FileExists(t, r.EnvFile, "the refused one must leave the settings of the first alone")
	requireAnswers(t, r)
	d.end(t, syscall.SIGTERM)
}

func TestSmokeTakenPortIsRefused(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}())
	require.NoError(t, err)
	require.Contains(t, fail(t, ExitFailed, t.TempDir(), "--nats-port", port), "port "+port+" (--nats-port) is taken")
}

func TestSmokeWrongUsage(t *testing.T) {
	t.Parallel()
	require.Contains(t, fail(t, ExitUsage, t.TempDir(), "--nope"), "not defined: -nope")
}

// A killed stack loses nothing that it needs to start again.
func TestSmokeStartsAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, r := begin(t, dir)
	before := source(t, r.EnvFile)
	require.NoError(t, d.cmd.Process.Kill())
	_ = d.cmd.Wait()
	d, r = begin(t, dir)
	require.Equal(t, before["AWS_SECRET_ACCESS_KEY"], source(t, r.EnvFile)["AWS_SECRET_ACCESS_KEY"])
	requireAnswers(t, r)
	d.end(t, syscall.SIGTERM)
}
