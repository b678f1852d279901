package starter

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals are SIGINT and SIGTERM of the process. They end the context of the running
// command, unless it takes them.
type signals struct {
	arrived chan os.Signal
	taken   chan struct{}
	take    func()
	watcher sync.WaitGroup
}

func newSignals() *signals {
	s := &signals{arrived: make(chan os.Signal, 4), taken: make(chan struct{})}
	s.take = sync.OnceFunc(func() { close(s.taken) })
	return s
}

// notify registers them. From stop on, a signal ends the process.
func (s *signals) notify() (stop func()) {
	signal.Notify(s.arrived, os.Interrupt, syscall.SIGTERM)
	return s.stop
}

func (s *signals) stop() { signal.Stop(s.arrived) }

// context returns a context that the first signal ends, and the function that ends it
// otherwise. A command that is busy with something else does not see that end; so the
// second signal ends the process.
func (s *signals) context(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.watcher.Go(func() {
		select {
		case <-s.arrived:
			s.stop()
			cancel()
		case <-s.taken:
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); s.watcher.Wait() }
}

// own returns the signals for a command that handles them itself: from now on they do not
// end its context, and the errors that follow are not those of a stop.
func (s *signals) own() <-chan os.Signal {
	s.take()
	s.watcher.Wait()
	return s.arrived
}
