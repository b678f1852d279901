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

// Forwarder stands between a worker and a server; stopped, it is a server that
// is away, at an address that stays. Safe for concurrent use.
type Forwarder struct {
	// server is the address that it was made with, target the host:port of it.
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

// ownAddress is one of this machine that hardly anybody else has: a port of
// 127.0.0.1 that is closed for a moment may be another's, of a connection even,
// when it is to be opened again.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
}

// Through is the server's address, as it was given, by way of the forwarder.
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

// Stop refuses new connections, cuts those that stand, and waits for their end.
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
			_, _ = io.Copy(way[0], way[1]) // how a connection ends is no fault
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

// hold keeps the connections for Stop; it refuses when stopped already.
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
