package network

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
)

// refresh is how long the resolved addresses of host names are used.
const refresh = 30 * time.Second

// always are never reached unless they are allowed: this host, its link-local
// addresses with their metadata services, and metadata services elsewhere.
var always = prefixes(
	"0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128", "169.254.0.0/16", "fe80::/10",
	"224.0.0.0/4", "255.255.255.255/32", "ff00::/8",
	"fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
)

// shared addresses are private ones beside those of [netip.Addr.IsPrivate].
var shared = prefixes("100.64.0.0/10")

// nat64 is the prefix to which translators map IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Policy decides which destinations an agent reaches. It may be used
// concurrently.
type Policy struct {
	spec   sandbox.Network
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	own    func(netip.Addr) bool
	log    *slog.Logger

	mu    sync.Mutex
	rules rules
	until time.Time
	known map[string][]netip.Addr // by host name
}

// rules are a specification whose names are resolved.
type rules struct {
	house, allow map[netip.AddrPort]bool
	// ports are those of Sojourn's services at addresses of this machine.
	ports  map[uint16]bool
	denied []netip.Prefix
}

// NewPolicy returns the policy of a specification.
func NewPolicy(spec sandbox.Network, log *slog.Logger) *Policy {
	return &Policy{spec: spec, lookup: lookup, own: own, log: log, known: map[string][]netip.Addr{}}
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// own reports whether an address is one of this machine: the kernel then uses
// that address as the source.
func own(a netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return false
	}
	defer c.Close()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	return ok && local.AddrPort().Addr().Unmap().WithZone("") == a.WithZone("")
}

// Permits reports whether the agent may reach the destination.
func (p *Policy) Permits(ctx context.Context, to netip.AddrPort) bool {
	r := p.current(ctx)
	a := to.Addr().Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	to = netip.AddrPortFrom(a, to.Port())
	here := contains(always, a) || p.own(a)
	switch {
	case r.house[to], here && r.ports[to.Port()]:
		return false
	case r.allow[to]:
		return true
	}
	return !here && !contains(r.denied, a)
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// current returns the rules, resolved again when they are old.
func (p *Policy) current(ctx context.Context) rules {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().After(p.until) {
		p.rules = p.resolve(ctx)
		p.until = time.Now().Add(refresh)
	}
	return p.rules
}

func (p *Policy) resolve(ctx context.Context) rules {
	r := rules{house: map[netip.AddrPort]bool{}, allow: map[netip.AddrPort]bool{}, ports: map[uint16]bool{}}
	for _, s := range p.spec.House {
		for _, to := range p.addresses(ctx, s) {
			r.add(to, p.own(to.Addr()))
		}
	}
	for _, s := range p.spec.Allow {
		for _, to := range p.addresses(ctx, s) {
			r.allow[to] = true
		}
	}
	for _, s := range p.spec.Deny {
		if prefix, err := netip.ParsePrefix(s); err == nil {
			r.denied = append(r.denied, prefix)
			continue
		}
		for _, a := range p.find(ctx, s) {
			r.denied = append(r.denied, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return r
}

// add denies one of Sojourn's services. At a private address all ports are
// denied, since other services there (a console, a database) are the operator's
// too. Port 443 of a public address is not denied: it may serve other names, and
// the service there requires authentication.
func (r *rules) add(to netip.AddrPort, own bool) {
	a := to.Addr()
	switch {
	case contains(always, a) || own:
		r.ports[to.Port()] = true
	case a.IsPrivate() || contains(shared, a):
		r.denied = append(r.denied, netip.PrefixFrom(a, a.BitLen()))
	case to.Port() == 443:
		return
	}
	r.house[to] = true
}

// addresses resolves HOST:PORT.
func (p *Policy) addresses(ctx context.Context, hostPort string) []netip.AddrPort {
	host, number, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil
	}
	var out []netip.AddrPort
	for _, a := range p.find(ctx, host) {
		out = append(out, netip.AddrPortFrom(a, uint16(port)))
	}
	return out
}

// find resolves a host. For a name that can't be resolved now it returns the
// earlier result. It is called with the lock held.
func (p *Policy) find(ctx context.Context, host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}
	}
	found, err := p.lookup(ctx, strings.TrimSuffix(host, "."))
	if err != nil {
		p.log.Warn("host name of the network's rules is not resolved", "host", host, "error", err)
		return p.known[host]
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	p.known[host] = found
	return found
}

// here returns the allowed HOST:PORTs at loopback addresses, which need a
// listener within the namespace.
func (p *Policy) here(ctx context.Context) []netip.AddrPort {
	var out []netip.AddrPort
	for to := range p.current(ctx).allow {
		if to.Addr().IsLoopback() && p.Permits(ctx, to) {
			out = append(out, to)
		}
	}
	return out
}
