package network

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
)

// policy resolves only the given names, and 10.9.9.9 is this machine.
func policy(t *testing.T, n sandbox.Network, names map[string]string) *Policy {
	t.Helper()
	require.NoError(t, n.Validate())
	p := NewPolicy(n, slog.New(slog.DiscardHandler))
	p.own = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.9.9.9") || a.IsLoopback() }
	p.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		var out []netip.Addr
		for s := range strings.FieldsSeq(names[host]) {
			out = append(out, netip.MustParseAddr(s))
		}
		if out == nil {
			return nil, errors.New("no such host")
		}
		return out, nil
	}
	return p
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"localhost": "127.0.0.1 ::1", "nats.internal": "10.1.1.1", "cloud.example": "93.184.216.1", "store.example": "93.184.216.2",
		"db.internal": "10.1.1.7",
	}
	p := policy(t, sandbox.Network{
		Mode:  sandbox.NetworkGuarded,
		House: []string{"127.0.0.1:7233", "nats.internal:4222", "cloud.example:7233", "store.example:443", "unknown.example:1"},
		Deny:  []string{"db.internal", "10.8.0.0/16", "2001:db8::5"},
		Allow: []string{"localhost:8000", "10.9.9.9:7233", "10.9.9.9:8001", "127.0.0.1:7233", "nats.internal:4222", "nats.internal:8002", "169.254.1.1:80"},
	}, names)
	for to, want := range map[string]bool{
		// Other hosts.
		"93.184.216.34:443": true, "[2606:2800::1]:443": true, "10.2.0.1:5432": true,
		// This machine, by all its names.
		"127.0.0.1:22": false, "127.0.0.2:22": false, "0.0.0.0:22": false, "10.9.9.9:22": false, "[::1]:22": false, "[::]:22": false,
		"[::ffff:127.0.0.1]:22": false, "[::ffff:10.9.9.9]:22": false, "[64:ff9b::7f00:1]:22": false, "[64:ff9b::a09:909]:22": false,
		// Links, multicast, metadata.
		"169.254.169.254:80": false, "[fe80::1]:80": false, "224.0.0.251:5353": false, "[fd00:ec2::254]:80": false, "168.63.129.16:80": false,
		// What is allowed, at this machine and at a denied address.
		"127.0.0.1:8000": true, "[::1]:8000": true, "10.9.9.9:8001": true, "10.1.1.1:8002": true, "169.254.1.1:80": true,
		// Sojourn's services, even if allowed, and other ports at their private
		// addresses.
		"127.0.0.1:7233": false, "10.9.9.9:7233": false, "10.1.1.1:4222": false, "10.1.1.1:22": false, "93.184.216.1:7233": false,
		// A public address of a service may serve others too.
		"93.184.216.1:443": true, "93.184.216.2:443": true,
		"10.1.1.7:5432": false, "10.8.1.1:80": false, "[2001:db8::5]:80": false,
	} {
		require.Equal(t, want, p.Permits(t.Context(), netip.MustParseAddrPort(to)), to)
	}
	require.ElementsMatch(t, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8000"), netip.MustParseAddrPort("[::1]:8000")}, p.here(t.Context()))
}

// TestPolicyKeepsWhatItKnew: a name server that is unavailable permits nothing.
func TestPolicyKeepsWhatItKnew(t *testing.T) {
	t.Parallel()
	names := map[string]string{"nats.internal": "10.1.1.1"}
	p := policy(t, sandbox.Network{House: []string{"nats.internal:4222"}}, names)
	to := netip.MustParseAddrPort("10.1.1.1:4222")
	require.False(t, p.Permits(t.Context(), to))
	delete(names, "nats.internal")
	p.until = p.until.Add(-2 * refresh)
	require.False(t, p.Permits(t.Context(), to))
}

func TestNameServers(t *testing.T) {
	t.Parallel()
	servers, inside := nameServers(strings.NewReader("# made by hand\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nnameserver x\nsearch a.example  b.example\noptions edns0\n"))
	require.Equal(t, []netip.Addr{netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("fe80::1%eth0")}, servers)
	require.Equal(t, "nameserver 198.18.53.53\nnameserver 198.18.53.54\nsearch a.example b.example\noptions edns0\n", inside)
}
