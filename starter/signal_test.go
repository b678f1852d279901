package starter

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

// reading is the program as a process that reads standard input, which stays open.
type reading struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan error
}

// startReading returns when the process has begun to read its input.
func startReading(t *testing.T, args ...string) *reading {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	r := &reading{cmd: exec.CommandContext(t.Context(), program), ended: make(chan error, 1)}
	r.cmd.Args = append([]string{"sojourn"}, args...)
	r.cmd.Stderr = &r.stderr
	in, err := r.cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	require.NoError(t, r.cmd.Start())
	go func() { r.ended <- r.cmd.Wait() }()
	// More than a pipe holds, so this ends when most of it was read.
	_, err = io.WriteString(in, strings.Repeat("x", 256<<10))
	require.NoError(t, err)
	return r
}

// A signal ends a command that reads its message from standard input.
func TestASignalEndsTheReadingOfAMessage(t *testing.T) {
	t.Parallel()
	r := startReading(t, "send", "s1", "-")
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		t.Fatal("the process still reads")
	}
	require.Equal(t, exitFailed, r.cmd.ProcessState.ExitCode())
	require.Equal(t, "sojourn: stopped\nsojourn: hint: what was accepted goes on in the session\n", r.stderr.String())
}

// At the first signal a filter reads on, since the program before it in the pipe ends as
// well and may still write. The next one ends it.
func TestASecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	r := startReading(t, "reduce")
	require.Eventually(t, func() bool {
		_ = r.cmd.Process.Signal(os.Interrupt) // fails when it has ended
		return len(r.ended) > 0
	}, time.Minute, 10*time.Millisecond)
	<-r.ended
	require.Equal(t, "signal: interrupt", r.cmd.ProcessState.String())
}

// A signal ends the command's context, unless the command owns the signals.
func TestASignalEndsTheContext(t *testing.T) {
	t.Parallel()
	s := newSignals()
	ctx, end := s.context(t.Context())
	defer end()
	s.arrived <- os.Interrupt
	<-ctx.Done()
}

// After Ctrl-C in chat, which interrupts a turn, an error is reported as what it is.
func TestChatReportsErrorsAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	s := newSignals()
	ctx, end := s.context(t.Context())
	defer end()
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, signals: s}).newTalk(nil, "")
	owned := talk.c.signals.own()
	s.arrived <- os.Interrupt
	require.NoError(t, talk.step(ctx, owned))
	require.Contains(t, errs.String(), "Ctrl-C again leaves")
	go func() { talk.events <- received{err: session.ErrClosed} }()
	err := talk.loop(ctx, owned)
	require.ErrorIs(t, err, session.ErrClosed)
	errs.Reset()
	require.Equal(t, exitRefused, talk.c.report(err, ctx.Err() != nil))
	require.NotContains(t, errs.String(), "stopped")
}
