//go:build linux

package runner_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

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

// BenchmarkLineFloor is the same agent and the same order over its bare pipes:
// what no runner can go below.
func BenchmarkLineFloor(b *testing.B) {
	s := setup(b, runner.IsolationAuto)
	cmd := exec.Command(s.spec.Argv[0])
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	out := bufio.NewReader(stdout)
	_, err = out.ReadString('\n')
	require.NoError(b, err)
	for b.Loop() {
		_, err := in.Write([]byte("ping\n"))
		require.NoError(b, err)
		_, err = out.ReadString('\n')
		require.NoError(b, err)
	}
	require.NoError(b, in.Close())
	require.NoError(b, cmd.Wait())
}
