//go:build linux

package runner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/test/executable"
	"github.com/sojourn-run/sojourn/test/skip"
)

// greeter is a server on loopback that greets each connection.
func greeter(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			c.Close()
		}
	}()
	return l.Addr().String()
}

// runGuarded runs a shell script in a guarded network, by a command line that
// ends in the runner's program.
func runGuarded(t *testing.T, allow []string, script string, argv ...string) string {
	t.Helper()
	spec, err := json.Marshal(runner.RunSpec{
		Argv: []string{"bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/",
		Isolation: runner.IsolationSpec{Mode: runner.IsolationRequire, Network: sandbox.Network{Mode: sandbox.NetworkGuarded, Allow: allow}},
	})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), argv[0], append(argv[1:], "run")...)
	cmd.Stdin = bytes.NewReader(spec)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// askBoth requests the server that is allowed, and the other one.
func askBoth(allowed, other string) string {
	dev := func(a string) string { return strings.Replace("/dev/tcp/"+a, ":", "/", 1) }
	return fmt.Sprintf("cat <%s; cat 2>/dev/null <%s || echo refused", dev(allowed), dev(other))
}

// needNetwork skips the test if this machine can't guard networks.
func needNetwork(t *testing.T, argv ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], append(argv[1:], "probe")...).Output()
	require.NoError(t, err)
	var found runner.Isolation
	require.NoError(t, json.Unmarshal(out, &found))
	if !found.Network {
		skip.Without(t, "a guarded network: "+found.NetworkReason+found.Reason)
	}
}

func TestGuardedNetwork(t *testing.T) {
	t.Parallel()
	program := setup(t, runner.IsolationRequire).program
	needNetwork(t, program)
	allowed, other := greeter(t), greeter(t)
	require.Equal(t, "hello\nrefused\n", runGuarded(t, []string{allowed}, askBoth(allowed, other), program))
}

// TestGuardedNetworkOfAnOrdinaryUser: with a user namespace, on a machine whose
// tun device is open to every user, as it usually is.
func TestGuardedNetworkOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		skip.NotApplicable(t, "TestGuardedNetwork is that of an ordinary user when it is run as one")
	}
	for _, tool := range []string{"unshare", "setpriv", "mknod"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Without(t, "util-linux, to become another user: "+err.Error())
		}
	}
	dir, err := os.MkdirTemp("", "sojourn-network-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	copied := filepath.Join(dir, "sojourn-runner")
	self, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	executable.Write(t, copied, data)
	const become = `mknod "$0/tun" c 10 200 && chmod 666 "$0/tun" && mount --bind "$0/tun" /dev/net/tun &&
		exec setpriv --reuid=65534 --regid=65534 --clear-groups env TMPDIR=/tmp "$@"`
	argv := []string{"unshare", "-m", "sh", "-c", become, dir, copied}
	needNetwork(t, argv...)
	require.NoError(t, os.Remove(filepath.Join(dir, "tun")))
	allowed, other := greeter(t), greeter(t)
	require.Equal(t, "hello\nrefused\n", runGuarded(t, []string{allowed}, askBoth(allowed, other), argv...))
}
