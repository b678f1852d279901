package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestToolReachesNoPortOfTheHouse: a tool's shell tries to connect to NATS, Temporal,
// its Web UI and S3 by every address of this machine, and to the metadata service of
// clouds, and fails. It reaches the model and what the operator allows.
func TestToolReachesNoPortOfTheHouse(t *testing.T) {
	inOwnNamespace(t)
	allowed, other := listening(t), listening(t)
	w := startWorker(t, "SOJOURN_NETWORK_ALLOW="+allowed)
	if strings.Contains(w.Said(), "agents have this machine's network") || strings.Contains(w.Said(), "no security boundary") {
		skip.Without(t, "a guarded network: "+w.Said())
	}
	house := append(houseAddresses(t), "169.254.169.254/80", slashed(other))
	may := []string{slashed(strings.TrimPrefix(spaceOf(t).ModelURL, "http://")), slashed(allowed)}
	for _, agent := range []string{"claude", "codex", "opencode", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			if agent != "claude" {
				skip.InShort(t, "of the agents, claude: a network knows none")
			}
			h := open(t, session.Options{Agent: agent})
			require.Empty(t, reached(t, h, house), "the house")
			require.Equal(t, may, reached(t, h, may))
			require.NoError(t, h.Close(testContext(t)))
		})
	}
}

// TestNetworkOfTheHost is the same with the host's network, by the operator's choice:
// the attack works, and the worker prints no warning.
func TestNetworkOfTheHost(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t, "SOJOURN_NETWORK=host")
	h := open(t, session.Options{})
	house := houseAddresses(t)[:4]
	require.Equal(t, house, reached(t, h, house))
	require.NotContains(t, w.Said(), "network")
	require.NoError(t, h.Close(testContext(t)))
}

// reached returns the addresses, as HOST/PORT, to which a tool's shell can connect.
func reached(t *testing.T, h *session.Handle, addresses []string) []string {
	t.Helper()
	out := shell(t, h, "bash -c 'for a in "+strings.Join(addresses, " ")+
		`; do timeout 20 bash -c "exec 3<>/dev/tcp/$a" 2>/dev/null && echo "open $a"; done; echo tried'`)
	require.Contains(t, out, "tried")
	var found []string
	for line := range strings.Lines(out) {
		if a, ok := strings.CutPrefix(strings.TrimSpace(line), "open "); ok {
			found = append(found, a)
		}
	}
	return found
}

// houseAddresses returns the ports of the servers at every address of this machine, as
// HOST/PORT, those of their settings first.
func houseAddresses(t *testing.T) []string {
	t.Helper()
	var ports []string
	for _, name := range []string{"NATS_URL", "TEMPORAL_ADDRESS", "SOJOURN_UI_URL", "AWS_ENDPOINT_URL_S3"} {
		address := shared.Env[name]
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			address = u.Host
		}
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err, name)
		ports = append(ports, port)
	}
	hosts := []string{"127.0.0.1", "localhost", "0.0.0.0", "127.0.0.2", "::1", "::ffff:127.0.0.1"}
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		require.NoError(t, err)
		if !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			hosts = append(hosts, p.Addr().String())
		}
	}
	var out []string
	for _, host := range hosts {
		for _, port := range ports {
			out = append(out, host+"/"+port)
		}
	}
	return out
}

// listening starts a server at an address of this machine that is not loopback, if
// there is one.
func listening(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			host = p.Addr().String()
		}
	}
	l, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// slashed returns HOST/PORT for HOST:PORT.
func slashed(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf("%s/%s", host, port)
}
