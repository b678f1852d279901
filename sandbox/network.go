package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// NetworkMode is how an agent reaches the network.
type NetworkMode string

const (
	// NetworkHost is the machine's network, as its processes have it. The default.
	NetworkHost NetworkMode = "host"
	// NetworkGuarded is a separate network namespace. Its only way out refuses the
	// machine's own addresses, link-local ones (with the metadata services of
	// clouds), and what [Network] denies.
	NetworkGuarded NetworkMode = "guarded"
)

// Network is what an agent may reach. The zero value is the machine's network.
type Network struct {
	// Mode: default host. The other fields apply only if it is guarded.
	Mode NetworkMode `json:"mode,omitempty"`
	// House lists the worker's own services as HOST:PORT: they are refused, whatever
	// Allow has; at private addresses, all ports are refused.
	House []string `json:"house,omitempty"`
	// Deny lists further addresses, prefixes (10.1.0.0/16) and host names.
	Deny []string `json:"deny,omitempty"`
	// Allow lists HOST:PORTs that are permitted although their addresses are refused,
	// such as a model on this machine. One at a loopback address has the same address
	// and port within the namespace.
	Allow []string `json:"allow,omitempty"`
}

// Guarded reports whether the agent has a separate network namespace.
func (n Network) Guarded() bool { return n.Mode == NetworkGuarded }

// Validate returns an error for the first invalid field.
func (n Network) Validate() error {
	if n.Mode != "" && n.Mode != NetworkHost && n.Mode != NetworkGuarded {
		return fmt.Errorf("field \"network.mode\" is %q, want %s or %s", n.Mode, NetworkGuarded, NetworkHost)
	}
	for name, list := range map[string][]string{"house": n.House, "allow": n.Allow} {
		for _, s := range list {
			if err := checkHostPort(s); err != nil {
				return fmt.Errorf("field \"network.%s\" has %q: %w", name, s, err)
			}
		}
	}
	for _, s := range n.Deny {
		if s == "" || strings.ContainsAny(s, " ,") {
			return fmt.Errorf("field \"network.deny\" has %q, want an address, a prefix or a host name", s)
		}
		if _, err := netip.ParsePrefix(s); err != nil && strings.Contains(s, "/") {
			return fmt.Errorf("field \"network.deny\" has %q, want a prefix such as 10.1.0.0/16", s)
		}
	}
	return nil
}

func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return fmt.Errorf("want HOST:PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port is %q, want 1 to 65535", port)
	}
	return nil
}

// defaultPorts are the ports of URLs without one.
var defaultPorts = map[string]string{
	"http": "80", "ws": "80", "https": "443", "wss": "443", "nats": "4222", "tls": "4222", "socks5": "1080", "socks5h": "1080",
}

// HostPort returns the HOST:PORT of a URL; false if it is not the URL of a
// server.
func HostPort(rawURL string) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(rawURL))
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	hostPort := net.JoinHostPort(u.Hostname(), port)
	return hostPort, checkHostPort(hostPort) == nil
}
