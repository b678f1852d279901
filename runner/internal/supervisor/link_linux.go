package supervisor

import (
	"context"
	"net"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/transport"
)

// link is how the supervisor talks to the agent process.
type link interface {
	// Env is what the process needs in its environment besides the spec's.
	Env() []string
	// EndsWithInput reports whether the agent ends when its input does, and what
	// is queued before that is still for it.
	EndsWithInput() bool
	// Serve keeps what the agent says and hands it its inputs. It returns
	// when gone is closed and all that was said is kept.
	Serve(h transport.Host, p transport.Pipes, gone <-chan struct{})
}

func (s *Supervisor) newLink() link {
	if s.spec.Transport == runner.TransportHTTP {
		return transport.NewHTTP(s.spec.HTTP, s.dialAgent)
	}
	return transport.Stdio{}
}

// dialAgent connects to a server of the agent's on loopback, in whose network
// namespace that is.
func (s *Supervisor) dialAgent(ctx context.Context, network, address string) (net.Conn, error) {
	if door := s.family.door; door != nil {
		return door.DialInside(ctx, network, address)
	}
	return transport.DialLoopback(ctx, network, address)
}
