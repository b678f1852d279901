package network

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// netlink is a routing socket, for the two requests that ioctl can't make for
// IPv6.
type netlink struct{ fd int }

func openNetlink() (netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return netlink{}, fmt.Errorf("open routing socket: %w", err)
	}
	return netlink{fd}, nil
}

func (n netlink) close() { unix.Close(n.fd) }

// addAddress adds a, with only itself as the device's network.
func (n netlink) addAddress(index int, a netip.Addr) error {
	m := unix.IfAddrmsg{
		Family: family(a), Prefixlen: uint8(a.BitLen()), Flags: unix.IFA_F_NODAD, Index: uint32(index),
	}
	return n.request(unix.RTM_NEWADDR, bytesOf(&m), attribute(unix.IFA_LOCAL, a.AsSlice()), attribute(unix.IFA_ADDRESS, a.AsSlice()))
}

// addDefaultRoute routes all of a's family to a device.
func (n netlink) addDefaultRoute(index int, a netip.Addr) error {
	m := unix.RtMsg{
		Family: family(a), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT,
		Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_UNICAST,
	}
	return n.request(unix.RTM_NEWROUTE, bytesOf(&m), attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index))))
}

// request sends one message and returns the kernel's answer to it.
func (n netlink) request(kind uint16, parts ...[]byte) error {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	h := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL,
	}
	if err := unix.Sendto(n.fd, append(bytesOf(&h), body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	size, _, err := unix.Recvfrom(n.fd, answer, 0)
	if err != nil {
		return err
	}
	if size < unix.SizeofNlMsghdr+4 {
		return unix.EBADMSG
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attribute encodes one, padded to four bytes.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// bytesOf returns the memory of one of the kernel's structures.
func bytesOf[T unix.NlMsghdr | unix.IfAddrmsg | unix.RtMsg](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}
