package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// device is the name of the tun device within the namespace.
	device = "sojourn0"
	// mtu is large to have few packets: they never leave this machine.
	mtu = 65520
)

// The addresses of the namespace's end of the device, of ranges that no network
// has: one for benchmarks, and unique local ones.
var (
	inside4 = netip.MustParseAddr("198.18.53.1")
	inside6 = netip.MustParseAddr("fd53:6f6a:6f75:726e::1")
	// resolvers are the addresses of the stand-ins for the machine's name servers.
	resolvers = []netip.Addr{
		netip.MustParseAddr("198.18.53.53"), netip.MustParseAddr("198.18.53.54"), netip.MustParseAddr("198.18.53.55"),
	}
)

// Inside is the input of the first process of a namespace.
type Inside struct {
	// Listen are loopback addresses to listen at.
	Listen []netip.AddrPort `json:"listen,omitempty"`
	// Resolv is a file to mount over /etc/resolv.conf; empty for none.
	Resolv string `json:"resolv,omitempty"`
}

// Enter sets up the calling process's network namespace, sends the device and the
// listeners to the supervisor at the other end of the socket, and returns when it
// has received them. It needs CAP_NET_ADMIN in the namespace.
func Enter(in Inside, supervisor *os.File) error {
	tun, err := openTun()
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	defer tun.Close()
	if err := configure(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	fds := []int{int(tun.Fd())}
	for _, at := range in.Listen {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil {
			return fmt.Errorf("network: %w", err)
		}
		f, err := l.File()
		l.Close()
		if err != nil {
			return fmt.Errorf("network: listener at %s: %w", at, err)
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	if err := resolvConf(in.Resolv); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := unix.Sendmsg(int(supervisor.Fd()), []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		return fmt.Errorf("network: hand over: %w", err)
	}
	if n, err := supervisor.Read(make([]byte, 1)); err != nil || n == 0 {
		return fmt.Errorf("network: no supervisor took the device: %w", err)
	}
	return nil
}

// resolvConf mounts a file over the one that names the machine's name servers. A
// machine without that file has none.
func resolvConf(file string) error {
	if file == "" {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	err := unix.Mount(file, resolvPath, "", unix.MS_BIND, "")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cover %s: %w", resolvPath, err)
	}
	return nil
}

// openTun makes the device.
func openTun() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	r, err := unix.NewIfreq(device)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make tun device: %w", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

// configure brings the devices up, with addresses and default routes.
func configure() error {
	if err := setUp("lo", 0); err != nil {
		return err
	}
	if err := setUp(device, mtu); err != nil {
		return err
	}
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	link, err := openNetlink()
	if err != nil {
		return err
	}
	defer link.close()
	for _, a := range []netip.Addr{inside4, inside6} {
		err := link.addAddress(i.Index, a)
		if err == nil {
			err = link.addDefaultRoute(i.Index, a)
		}
		// A kernel without IPv6 needs no guard for it.
		if err != nil && (a.Is4() || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EACCES)) {
			return fmt.Errorf("configure %s with %s: %w", device, a, err)
		}
	}
	return nil
}

// setUp brings a device up; an mtu of 0 does not change it.
func setUp(name string, mtu uint32) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if mtu > 0 {
		r.SetUint32(mtu)
		if err := unix.IoctlIfreq(s, unix.SIOCSIFMTU, r); err != nil {
			return fmt.Errorf("set the mtu of %s: %w", name, err)
		}
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

// Serve makes a TCP socket of this namespace for every byte received over the
// socket, which names its family, until the supervisor has ended.
func Serve(supervisor *os.File) {
	family := make([]byte, 1)
	for {
		n, err := supervisor.Read(family)
		if err != nil || n == 0 {
			return
		}
		s, err := unix.Socket(int(family[0]), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			// A message without a descriptor tells the supervisor that there is none.
			_ = unix.Sendmsg(int(supervisor.Fd()), []byte{0}, nil, nil, 0)
			continue
		}
		err = unix.Sendmsg(int(supervisor.Fd()), []byte{0}, unix.UnixRights(s), nil, 0)
		unix.Close(s)
		if err != nil {
			return
		}
	}
}
