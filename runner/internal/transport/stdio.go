package transport

import (
	"sync"

	"github.com/sojourn-run/sojourn/event"
)

// Stdio serves an agent that speaks lines: its stdout is its output, its stderr
// its log, and inputs are written to its stdin.
type Stdio struct{}

// Env returns nothing.
func (Stdio) Env() []string { return nil }

// EndsWithInput returns true: such an agent ends when its input is closed.
func (Stdio) EndsWithInput() bool { return true }

// Serve returns when gone is closed, which means that the process has ended, and
// its output is recorded.
func (Stdio) Serve(h Host, p Pipes, gone <-chan struct{}) {
	var work sync.WaitGroup
	work.Go(func() { h.pump(p.Stdout, event.DirOut, nil) })
	work.Go(func() { h.pump(p.Stderr, event.DirErr, nil) })
	work.Go(func() {
		defer p.Stdin.Close()
		// A write fails only if the agent has closed its end or has ended; later inputs
		// are then dropped, as the agent would.
		var broken error
		for data := range h.Inputs() {
			if broken == nil {
				_, broken = p.Stdin.Write(data)
			}
		}
	})
	<-gone
	p.Stdin.Close()
	work.Wait()
}
