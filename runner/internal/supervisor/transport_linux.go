package supervisor

import (
	"context"
	"net"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/transport"
)

// agentTransport is how the supervisor talks to the agent process.
type agentTransport interface {
	// Env returns what the process needs in its environment besides the spec's.
	Env() []string
	// EndsWithInput reports whether the agent ends when its input does, and still
	// reads what is queued.
	EndsWithInput() bool
	// Serve records the agent's output and passes it its inputs. It returns when gone
	// is closed and all output is recorded.
	Serve(h transport.Host, p transport.Pipes, gone <-chan struct{})
}

func (s *Supervisor) newTransport() agentTransport {
	if s.spec.Transport == runner.TransportHTTP {
		return transport.NewHTTP(s.spec.HTTP, s.dialAgent)
	}
	return transport.Stdio{}
}

// dialAgent connects to the agent's server on loopback, in the agent's network
// namespace.
func (s *Supervisor) dialAgent(ctx context.Context, network, address string) (net.Conn, error) {
	if door := s.processTree.door; door != nil {
		return door.DialInside(ctx, network, address)
	}
	return transport.DialLoopback(ctx, network, address)
}
