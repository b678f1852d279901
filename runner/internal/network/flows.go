package network

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// errEnded is returned for a flow that starts after the end.
var errEnded = errors.New("the network has ended")

// flows are a door's goroutines. The zero value is ready to use.
type flows struct {
	mu     sync.Mutex
	ended  bool
	open   map[io.Closer]struct{}
	work   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

// context returns a context that ends with the flows.
func (f *flows) context() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.contextLocked()
}

func (f *flows) contextLocked() context.Context {
	if f.ctx == nil {
		f.ctx, f.cancel = context.WithCancel(context.Background())
		if f.ended {
			f.cancel()
		}
	}
	return f.ctx
}

// run runs do in a goroutine, and closes c after it, or when the flows end.
func (f *flows) run(c io.Closer, do func()) error {
	if !f.hold(c) {
		c.Close()
		return errEnded
	}
	go func() {
		defer f.work.Done()
		defer f.release(c)
		do()
	}()
	return nil
}

func (f *flows) hold(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	if f.open == nil {
		f.open = map[io.Closer]struct{}{}
	}
	f.open[c] = struct{}{}
	f.work.Add(1)
	return true
}

func (f *flows) release(c io.Closer) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// relay copies both directions until both have ended, and closes out. The caller
// closes in.
func (f *flows) relay(in, out net.Conn) {
	f.both(out, func() { pipe(in, out) }, func() { pipe(out, in) })
}

// both runs one function in a goroutine and the other here, returns when both
// have ended, and closes c then.
func (f *flows) both(c io.Closer, there, here func()) {
	thereDone, hereDone := make(chan struct{}), make(chan struct{})
	err := f.run(c, func() {
		there()
		close(thereDone)
		<-hereDone
	})
	if err != nil {
		return
	}
	here()
	close(hereDone)
	<-thereDone
}

// end closes everything and returns when all goroutines have ended. It may be
// called twice.
func (f *flows) end() {
	f.mu.Lock()
	f.ended = true
	f.contextLocked()
	f.cancel()
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.work.Wait()
}
