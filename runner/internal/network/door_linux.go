package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/sandbox"
)

const (
	// dialTimeout bounds the making of a connection; an unreachable destination is
	// refused then.
	dialTimeout = 30 * time.Second
	// setupTimeout bounds resolving the policy's names at the start.
	setupTimeout = 10 * time.Second
)

// Door is the way out of one namespace. Close ends it.
type Door struct {
	policy  *Policy
	log     *slog.Logger
	servers []netip.Addr
	listen  []netip.AddrPort
	resolv  string // a file that is removed when the door is open

	ours   *os.File      // our end of the socket
	asking sync.Mutex    // one request for a socket at a time
	conn   *net.UnixConn // made from ours

	link  *link
	flows flows
}

// New prepares a door; its Inside and Theirs are for the first process of the
// namespace, and Open follows when that runs.
func New(spec sandbox.Network, log *slog.Logger) (d *Door, inside Inside, theirs *os.File, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	d = &Door{policy: NewPolicy(spec, log), log: log}
	d.listen = d.policy.here(ctx)
	inside.Listen = d.listen
	var conf string
	if d.servers, conf = machineNameServers(); conf != "" {
		if d.resolv, err = writeTemp(conf); err != nil {
			return nil, inside, nil, fmt.Errorf("network: %w", err)
		}
		inside.Resolv = d.resolv
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		d.Close()
		return nil, inside, nil, fmt.Errorf("network: %w", err)
	}
	d.ours = os.NewFile(uintptr(pair[0]), "network")
	return d, inside, os.NewFile(uintptr(pair[1]), "network"), nil
}

// writeTemp makes a file that every user may read.
func writeTemp(content string) (string, error) {
	f, err := os.CreateTemp("", "sojourn-resolv-")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Open receives what [Enter] sends and lets traffic through.
func (d *Door) Open() error {
	c, err := net.FileConn(d.ours)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	d.conn = c.(*net.UnixConn)
	fds, err := d.receive(1 + len(d.listen))
	if err != nil {
		return fmt.Errorf("network: the first process handed nothing over: %w", err)
	}
	if d.link, err = openLink(fds[0], d); err != nil {
		closeFds(fds)
		return fmt.Errorf("network: %w", err)
	}
	for i, fd := range fds[1:] {
		if err := d.serve(fd, d.listen[i]); err != nil {
			closeFds(fds[2+i:])
			return fmt.Errorf("network: listener at %s: %w", d.listen[i], err)
		}
	}
	if _, err := d.conn.Write([]byte{0}); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// receive reads a message with n descriptors.
func (d *Door) receive(n int) ([]int, error) {
	oob := make([]byte, unix.CmsgSpace(4*max(n, 1)))
	_, size, _, _, err := d.conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(oob[:size])
	for _, m := range messages {
		got, perr := unix.ParseUnixRights(&m)
		fds, err = append(fds, got...), errors.Join(err, perr)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	if err == nil && len(fds) != n {
		err = fmt.Errorf("%d descriptors, want %d", len(fds), n)
	}
	if err != nil {
		closeFds(fds)
		return nil, err
	}
	return fds, nil
}

func closeFds(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Close ends all traffic and returns when it has ended. It may be called twice,
// and on a door that was not opened.
func (d *Door) Close() {
	if d.resolv != "" {
		_ = os.Remove(d.resolv)
		d.resolv = ""
	}
	if d.ours != nil {
		_ = d.ours.Close()
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
	d.flows.end()
	if d.link != nil {
		d.link.close()
	}
}

// dial connects to the agent's destination.
func (d *Door) dial(network string, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.flows.context(), dialTimeout)
	defer cancel()
	target := to
	if i := nameServer(to); i >= 0 && i < len(d.servers) {
		target = netip.AddrPortFrom(d.servers[i], to.Port())
	} else if !d.policy.Permits(ctx, to) {
		return nil, errRefused
	}
	return new(net.Dialer).DialContext(ctx, network, target.String())
}

var errRefused = errors.New("refused")

// nameServer returns the index of a name server's stand-in, or -1.
func nameServer(to netip.AddrPort) int {
	if to.Port() != 53 {
		return -1
	}
	for i, a := range resolvers {
		if a == to.Addr().Unmap() {
			return i
		}
	}
	return -1
}

// serve forwards what a listener within the namespace accepts to the same
// address outside.
func (d *Door) serve(fd int, at netip.AddrPort) error {
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return err
	}
	return d.flows.run(l, func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			_ = d.flows.run(in, func() {
				out, err := d.dial("tcp", at)
				if err != nil {
					d.log.Debug("not forwarded", "to", at, "error", err)
					return
				}
				d.flows.relay(in, out)
			})
		}
	})
}

// DialInside connects to a server at a loopback address of the namespace.
func (d *Door) DialInside(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	hosts := []string{host}
	if host == "localhost" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, h := range hosts {
		to, perr := netip.ParseAddrPort(net.JoinHostPort(h, port))
		if perr != nil || !to.Addr().Unmap().IsLoopback() {
			return nil, fmt.Errorf("%s is no loopback address", address)
		}
		var c net.Conn
		if c, err = d.connectInside(ctx, netip.AddrPortFrom(to.Addr().Unmap(), to.Port())); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (d *Door) connectInside(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	fd, err := d.socketInside(to.Addr())
	if err != nil {
		return nil, fmt.Errorf("connect to %s within the namespace: %w", to, err)
	}
	f := os.NewFile(uintptr(fd), "inside")
	defer f.Close()
	if err := connect(ctx, f, to); err != nil {
		return nil, fmt.Errorf("connect to %s within the namespace: %w", to, err)
	}
	return net.FileConn(f)
}

// connect connects a non-blocking socket. On loopback that is immediate, or as
// soon as the server's queue has room.
func connect(ctx context.Context, f *os.File, to netip.AddrPort) error {
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if to.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Now()) })
	defer stop()
	begun := false
	var cerr error
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			cerr = unix.Connect(int(fd), sa)
			return !errors.Is(cerr, unix.EINPROGRESS) && !errors.Is(cerr, unix.EAGAIN)
		}
		code, gerr := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		cerr = gerr
		if gerr == nil && code != 0 {
			cerr = unix.Errno(code)
		}
		return true
	})
	return errors.Join(cerr, err)
}

func (d *Door) socketInside(a netip.Addr) (int, error) {
	d.asking.Lock()
	defer d.asking.Unlock()
	if _, err := d.conn.Write([]byte{family(a)}); err != nil {
		return 0, err
	}
	fds, err := d.receive(1)
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// copyBuffer is the size of one copy where the kernel can't copy.
const copyBuffer = 64 << 10

// halfCloser is a connection whose sending can end before its receiving.
type halfCloser interface{ CloseWrite() error }

// pipe copies one direction until its end.
func pipe(to, from net.Conn) {
	if _, err := io.CopyBuffer(to, from, make([]byte, copyBuffer)); err != nil {
		// A failure of one direction ends the other, as it would on a direct
		// connection.
		to.Close()
		from.Close()
		return
	}
	if h, ok := to.(halfCloser); ok {
		_ = h.CloseWrite()
	}
}
