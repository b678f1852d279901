//go:build linux

package runner_test

import (
	"fmt"
	"testing"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
)

// BenchmarkLineLatency is one input and the agent's answering line, through
// journal, spool and socket, back at the client.
func BenchmarkLineLatency(b *testing.B) {
	s := setup(b, runner.IsolationAuto)
	s.mustStart()
	c := s.dial()
	r := read(b, c, 0)
	r.until(event.DirOut, "ready")
	b.ResetTimer()
	for i := range b.N {
		say(b, c, fmt.Sprint("m", i), "ping")
		r.until(event.DirOut, "echo ping")
	}
}

// BenchmarkFlood is one line of a flooding agent, to the client.
func BenchmarkFlood(b *testing.B) {
	s := setup(b, runner.IsolationAuto)
	s.mustStart()
	c := s.dial()
	r := read(b, c, 0)
	r.until(event.DirOut, "ready")
	b.ResetTimer()
	say(b, c, "m", fmt.Sprint("flood ", b.N))
	r.until(event.DirOut, fmt.Sprint("line ", b.N-1))
}
