package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	// pending is the maximum of TCP connections being made at once.
	pending = 512
	// datagramFlows is the maximum of concurrent UDP flows; further ones are dropped.
	datagramFlows = 512
	// datagramIdle ends a UDP flow, which has no packet for its end.
	datagramIdle = time.Minute
	nic          = 1
)

// link is the TCP/IP stack at the outer end of the tun device.
type link struct {
	fd    int
	stack *stack.Stack
	door  *Door
	udp   atomic.Int32
}

// openLink takes ownership of the device's descriptor.
func openLink(fd int, d *Door) (*link, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	device, err := fdbased.New(&fdbased.Options{FDs: []int{fd}, MTU: mtu})
	if err != nil {
		return nil, fmt.Errorf("tun device: %w", err)
	}
	l := &link{fd: fd, door: d, stack: stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})}
	if err := l.configure(device); err != nil {
		l.stack.Destroy()
		return nil, err
	}
	return l, nil
}

// configure makes the stack answer at every address, since it represents
// everything outside.
func (l *link) configure(device stack.LinkEndpoint) error {
	sack := tcpip.TCPSACKEnabled(true)
	faults := []tcpip.Error{
		l.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack),
		l.stack.CreateNIC(nic, device),
		l.stack.SetPromiscuousMode(nic, true),
		l.stack.SetSpoofing(nic, true),
	}
	for _, fault := range faults {
		if fault != nil {
			return fmt.Errorf("network stack: %s", fault)
		}
	}
	l.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic},
	})
	connections := tcp.NewForwarder(l.stack, 0, pending, l.connection)
	l.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, connections.HandlePacket)
	datagrams := udp.NewForwarder(l.stack, l.datagrams)
	l.stack.SetTransportProtocolHandler(udp.ProtocolNumber, datagrams.HandlePacket)
	return nil
}

func (l *link) close() {
	l.stack.Destroy()
	unix.Close(l.fd)
}

// destination returns the destination of the agent's packet.
func destination(id stack.TransportEndpointID) netip.AddrPort {
	a, _ := netip.AddrFromSlice(id.LocalAddress.AsSlice())
	return netip.AddrPortFrom(a.Unmap(), id.LocalPort)
}

// connection makes the agent's connection outside before it accepts it, so that
// the agent sees a refusal as one. It runs in its own goroutine.
func (l *link) connection(r *tcp.ForwarderRequest) {
	to := destination(r.ID())
	out, err := l.door.dial("tcp", to)
	if err != nil {
		l.door.log.Debug("not connected", "to", to, "error", err)
		r.Complete(true)
		return
	}
	var queue waiter.Queue
	endpoint, fault := r.CreateEndpoint(&queue)
	if fault != nil {
		out.Close()
		r.Complete(true)
		return
	}
	r.Complete(false)
	in := gonet.NewTCPConn(&queue, endpoint)
	if l.door.flows.run(in, func() { l.door.flows.relay(in, out) }) != nil {
		out.Close()
	}
}

// datagrams starts a UDP flow.
func (l *link) datagrams(r *udp.ForwarderRequest) bool {
	to := destination(r.ID())
	if l.udp.Add(1) > datagramFlows {
		l.udp.Add(-1)
		return true
	}
	var queue waiter.Queue
	endpoint, fault := r.CreateEndpoint(&queue)
	if fault != nil {
		l.udp.Add(-1)
		return true
	}
	in := gonet.NewUDPConn(&queue, endpoint)
	err := l.door.flows.run(in, func() {
		defer l.udp.Add(-1)
		out, err := l.door.dial("udp", to)
		if err != nil {
			l.door.log.Debug("not sent", "to", to, "error", err)
			return
		}
		l.exchange(in, out)
	})
	if err != nil {
		l.udp.Add(-1)
	}
	return true
}

// exchange passes datagrams in both directions until neither has any for a while.
func (l *link) exchange(in, out net.Conn) {
	var last atomic.Int64
	l.door.flows.both(out, func() { forward(in, out, &last) }, func() { forward(out, in, &last) })
}

// forward passes on one direction; last is the time of the last datagram of
// either.
func forward(to, from net.Conn, last *atomic.Int64) {
	buf := make([]byte, 64<<10)
	for {
		_ = from.SetReadDeadline(time.Now().Add(datagramIdle))
		n, err := from.Read(buf)
		if err == nil {
			last.Store(time.Now().UnixNano())
			// A datagram that is not accepted is lost, as datagrams are.
			_, _ = to.Write(buf[:n])
			continue
		}
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && time.Since(time.Unix(0, last.Load())) < datagramIdle {
			continue
		}
		to.Close()
		return
	}
}
