package teststack

import (
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// ClosedAddress is a loopback address where nobody listens, and that nobody else
// gets while the test runs: its port is taken, and takes no connection.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open a socket: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("bind a socket: %v", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatalf("name of a socket: %v", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*unix.SockaddrInet4).Port))
}
