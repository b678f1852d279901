package network

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
)

const resolvPath = "/etc/resolv.conf"

// nameServers reads the machine's name servers, as many as there are stand-ins,
// and returns the file that agents see instead.
func nameServers(conf io.Reader) (servers []netip.Addr, inside string) {
	var b strings.Builder
	for lines := bufio.NewScanner(conf); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(fields[1]); err == nil && len(servers) < len(resolvers) {
				fmt.Fprintf(&b, "nameserver %s\n", resolvers[len(servers)])
				servers = append(servers, a.Unmap())
			}
		case "search", "domain", "options":
			b.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	return servers, b.String()
}

// machineNameServers is nameServers for this machine's file; none if it is
// missing.
func machineNameServers() (servers []netip.Addr, inside string) {
	f, err := os.Open(resolvPath)
	if err != nil {
		return nil, ""
	}
	defer f.Close()
	return nameServers(f)
}
