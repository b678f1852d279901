//go:build linux

package runner_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
)

// BenchmarkLineLatency is one input and the agent's answer, through journal,
// spool and socket, back to the client.
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

// BenchmarkLongLine is one line of 64 MB, from the agent's pipe to the client.
func BenchmarkLongLine(b *testing.B) {
	for _, order := range []string{"big", "quoted"} {
		b.Run(order, func(b *testing.B) {
			s := setup(b, runner.IsolationAuto)
			s.spec.MaxLine = 128 << 20
			s.mustStart()
			c := s.dial()
			r := read(b, c, 0)
			r.until(event.DirOut, "ready")
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			for i := range b.N {
				say(b, c, fmt.Sprint("m", i), fmt.Sprint(order, " ", 64<<20))
				d := r.until(event.DirOut, "")
				require.Greater(b, len(d.Record.Line), 60<<20)
			}
			b.StopTimer()
			reportPeak(b, s)
		})
	}
}

// BenchmarkLongEvent is one event of 64 MB, from the server's socket to the
// client.
func BenchmarkLongEvent(b *testing.B) {
	s := setupHTTP(b, runner.IsolationAuto)
	s.spec.MaxLine = 128 << 20
	s.mustStart()
	c := s.dial()
	r := read(b, c, 0)
	r.until(event.DirOut, "")
	b.SetBytes(64 << 20)
	b.ReportAllocs()
	for i := range b.N {
		ask(b, c, fmt.Sprint("m", i), "POST", fmt.Sprint("/big-event?n=", 64<<20), nil)
		r.until(event.DirOut, `{"type":"big"`)
	}
	b.StopTimer()
	reportPeak(b, s)
}

// reportPeak reports how much memory the supervisor used at most.
func reportPeak(b *testing.B, s *bench) {
	st, err := s.dial().Status(b.Context())
	require.NoError(b, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", st.Supervisor))
	require.NoError(b, err)
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			require.NoError(b, err)
			b.ReportMetric(float64(n)/1024, "peak-MB")
		}
	}
}

// BenchmarkLineFloor is the same agent and the same command over bare pipes: the
// lower bound for any runner.
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
