package launch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
)

// Port is a requested port, before it is known to be free.
type Port struct {
	// Flag is the name of the flag that sets it, without dashes.
	Flag string
	// Number is the requested port; 0 is any free one.
	Number int
	// Explicit is true when the user gave Number. A default that is taken is replaced
	// by a free port; an explicit one is an error.
	Explicit bool
}

// Claim is a port that is held: no other process can bind it before Release.
type Claim struct {
	// Port is the request.
	Port Port
	// Number is the held port.
	Number   int
	listener net.Listener
}

// Claim binds the port on ip and holds it. It fails with an [*Error] when an
// explicit port is taken, or when the port can't be bound at all.
func (p Port) Claim(ip string) (*Claim, error) {
	l, err := listen(ip, p.Number)
	if errors.Is(err, syscall.EADDRINUSE) && !p.Explicit {
		l, err = listen(ip, 0)
	}
	if err != nil {
		return nil, p.explain(ip, err)
	}
	return &Claim{Port: p, Number: l.Addr().(*net.TCPAddr).Port, listener: l}, nil
}

func listen(ip string, port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
}

func (p Port) explain(ip string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return failed(fmt.Sprintf("end what listens there, give another --%s, or 0 for a free one", p.Flag),
			"port %d (--%s) is taken on %s", p.Number, p.Flag, ip)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failed("give an address of this machine, such as 127.0.0.1", "--ip %s is not an address of this machine", ip)
	case errors.Is(err, syscall.EACCES):
		return failed("ports below 1024 need rights; give a higher one", "port %d (--%s) may not be bound", p.Number, p.Flag)
	}
	return fmt.Errorf("bind port %d (--%s): %w", p.Number, p.Flag, err)
}

// Release releases the port and returns its number, for the server that binds it
// next. Calling it again only returns the number.
func (c *Claim) Release() int {
	_ = c.listener.Close()
	return c.Number
}

// Notice writes to w if a free port was taken instead of the default.
func (c *Claim) Notice(w io.Writer) {
	if c.Port.Number != 0 && c.Number != c.Port.Number {
		fmt.Fprintf(w, "%s: port %d is taken, using %d (--%s)\n", Program, c.Port.Number, c.Number, c.Port.Flag)
	}
}

// Reachable returns the address under which a server bound to ip is reached
// from this machine: ip itself, or loopback when ip means every address.
func Reachable(ip string) string {
	parsed := net.ParseIP(ip)
	if parsed == nil || !parsed.IsUnspecified() {
		return ip
	}
	if parsed.To4() != nil {
		return "127.0.0.1"
	}
	return "::1"
}
