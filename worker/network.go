package worker

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/sandbox"
)

// readNetwork reads what agents may reach: the flag --network or SOJOURN_NETWORK,
// SOJOURN_NETWORK_ALLOW and SOJOURN_NETWORK_DENY.
func (s *options) readNetwork(mode string) error {
	if mode == "" {
		mode = s.Get("SOJOURN_NETWORK")
	}
	s.network = sandbox.Network{
		Mode:  sandbox.NetworkMode(mode),
		Allow: commaList(s.Get("SOJOURN_NETWORK_ALLOW")), Deny: commaList(s.Get("SOJOURN_NETWORK_DENY")),
	}
	if s.network.Mode != "" && s.network.Mode != sandbox.NetworkGuarded && s.network.Mode != sandbox.NetworkHost {
		return usageError(fmt.Sprintf("--network is %q; it must be %s or %s", mode, sandbox.NetworkGuarded, sandbox.NetworkHost))
	}
	if err := s.network.Validate(); err != nil {
		return wrongUsage{hinted{err, "SOJOURN_NETWORK_ALLOW is a list of HOST:PORT, SOJOURN_NETWORK_DENY one of addresses, prefixes and host names"}}
	}
	return nil
}

// house returns the services that this worker itself uses, as HOST:PORT.
func (s *options) house(temporal string) []string {
	house := []string{temporal}
	urls := append(strings.Split(s.NATS(), ","), s.Get("AWS_ENDPOINT_URL_S3"), s.Get("AWS_ENDPOINT_URL"), s.Get("SOJOURN_UI_URL"))
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			// NATS accepts HOST and HOST:PORT as addresses.
			u = "nats://" + strings.TrimSpace(u)
		}
		if hostPort, ok := sandbox.HostPort(u); ok {
			house = append(house, hostPort)
		}
	}
	return house
}

func commaList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
