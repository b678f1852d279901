package harness

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
)

// Forwarder forwards connections between a worker and a server. While it is stopped,
// the server is unreachable; its address stays the same. Safe for concurrent use.
type Forwarder struct {
	// server is the address passed to Forward, target its host:port.
	server string
	target string
	addr   string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	owned    sync.WaitGroup
}

// Forward starts a forwarder to a server; its address is host:port or a URL.
func Forward(server string) (*Forwarder, error) {
	f := &Forwarder{server: server, target: server, addr: ownAddress() + ":0", conns: map[net.Conn]bool{}}
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		f.target = u.Host
	}
	return f, f.Start()
}

// ownAddress returns an address of this machine that hardly any other program uses. A
// port of 127.0.0.1 that is closed for a moment may be taken, even by an outgoing
// connection, before it is opened again.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
}

// Through returns the server's address, in the form passed to Forward, with the
// forwarder's host and port.
func (f *Forwarder) Through() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Replace(f.server, f.target, f.addr, 1)
}

// Start listens again, at the same address as before.
func (f *Forwarder) Start() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("forward to %s: %w", f.target, err)
	}
	f.listener, f.addr = l, l.Addr().String()
	f.owned.Go(func() { f.accept(l) })
	return nil
}

// Stop refuses new connections, closes the open ones, and waits until they have ended.
// It may be called more than once.
func (f *Forwarder) Stop() {
	f.mu.Lock()
	if f.listener != nil {
		f.listener.Close()
		f.listener = nil
	}
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.owned.Wait()
}

func (f *Forwarder) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f.owned.Go(func() { f.serve(c) })
	}
}

func (f *Forwarder) serve(client net.Conn) {
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		client.Close()
		return
	}
	if !f.hold(client, server) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // how a connection ends is not an error here
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, client)
	delete(f.conns, server)
}

// hold keeps the connections for Stop. It returns false if the forwarder has been
// stopped.
func (f *Forwarder) hold(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.listener == nil {
			c.Close()
			continue
		}
		f.conns[c] = true
	}
	return f.listener != nil
}
