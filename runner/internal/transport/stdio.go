package transport

import (
	"sync"

	"github.com/sojourn-run/sojourn/event"
)

// Stdio serves an agent that speaks lines: its stdout is what it says, its
// stderr its log, and inputs are written to its stdin.
type Stdio struct{}

// Env is nothing.
func (Stdio) Env() []string { return nil }

// EndsWithInput says that closing its input tells such an agent to end.
func (Stdio) EndsWithInput() bool { return true }

// Serve returns when the process is gone, which the closing of gone says, and
// all it wrote is kept.
func (Stdio) Serve(h Host, p Pipes, gone <-chan struct{}) {
	var work sync.WaitGroup
	work.Go(func() { h.pump(p.Stdout, event.DirOut, nil) })
	work.Go(func() { h.pump(p.Stderr, event.DirErr, nil) })
	work.Go(func() {
		defer p.Stdin.Close()
		// A write fails only when the agent has closed its end or is gone;
		// what follows is then dropped, as the agent would.
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
