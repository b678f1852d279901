//go:build linux

package runner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
)

// run calls the program and returns both outputs and the exit code.
func (b *bench) run(stdin string, args ...string) (out, errOut string, code int) {
	cmd := exec.CommandContext(b.t.Context(), b.program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	require.NoError(b.t, err)
	return stdout.String(), stderr.String(), 0
}

// must is run for a command that succeeds with one JSON value.
func must[T any](b *bench, stdin string, args ...string) (v T) {
	b.t.Helper()
	out, errOut, code := b.run(stdin, args...)
	require.Zerof(b.t, code, "%v: %s", args, errOut)
	if out != "" {
		require.NoError(b.t, json.Unmarshal([]byte(out), &v))
	}
	return v
}

// The commands, in the order in which a script would use them.
func TestCommands(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	at := []string{"--socket", b.spec.Socket, "--epoch", "1"}
	cmd := func(name string, more ...string) []string {
		return append(append([]string{name}, at...), more...)
	}
	require.Equal(t, runner.AgentRunning, must[runner.Status](b, token+"\n", cmd("status")...).State)
	ack := must[runner.Ack](b, token+"\nhello\n", cmd("input", "--id", "m1")...)
	require.False(t, ack.Duplicate)
	require.True(t, must[runner.Ack](b, token+"\nhello\n", cmd("input", "--id", "m1")...).Duplicate)
	mark := must[runner.Mark](b, token+"\n", cmd("control", "processes")...)
	require.Empty(t, mark.Processes)
	require.Empty(t, must[runner.Swept](b, token+"\n{\"processes\":[]}", cmd("control", "sweep")...).Killed)
	must[any](b, token+"\n", cmd("control", "lease", "1h")...)
	must[any](b, token+"\n", cmd("control", "lease", "0s")...)
	must[any](b, token+"\n", cmd("control", "trim", "0")...)
	must[any](b, token+"\n", cmd("control", "close-input")...)
	st := must[runner.Status](b, token+"\n", cmd("stop")...)
	require.Equal(t, 0, *st.ExitCode)
	out, _, code := b.run("", "records", "--control", b.spec.Control, "--from", "0")
	require.Zero(t, code)
	var lines []string
	for line := range strings.Lines(out) {
		var d struct {
			Offset, Next int64
			Record       traffic.Record
		}
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		lines = append(lines, string(d.Record.Dir)+" "+d.Record.Line)
	}
	require.ElementsMatch(t, []string{"sig start", "out ready", "in hello", "out echo hello ", "out bye", "sig exit 0"}, lines)
}

func TestCommandsThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"", nil, 2, "no command"},
		{"", []string{"fly"}, 2, `unknown command "fly"`},
		{"", []string{"status"}, 2, "--socket is missing"},
		{"", []string{"status", "--sock", "x"}, 2, "status: flag provided but not defined"},
		{"", []string{"status", "--socket", b.spec.Socket}, 1, "read the token"},
		{"wrong\n", []string{"status", "--socket", b.spec.Socket, "--epoch", "1"}, 1, "wrong token"},
		{token + "\n", []string{"status", "--socket", b.spec.Socket}, 1, "a newer epoch has taken over"},
		{token + "\n", []string{"status", "--socket", "/no/such/socket"}, 1, "/no/such/socket"},
		{token + "\n", []string{"control", "--socket", b.spec.Socket, "--epoch", "1", "signal", "NOPE"}, 2, `unknown signal "NOPE"`},
		{token + "\n", []string{"control", "--socket", b.spec.Socket, "--epoch", "1", "dance"}, 2, `unknown operation "dance"`},
		{"{", []string{"start"}, 1, "spec on stdin"},
		{"", []string{"records", "--control", "/no/such"}, 1, "/no/such"},
	} {
		out, errOut, code := b.run(c.stdin, c.args...)
		require.Equalf(t, c.code, code, "%v", c.args)
		require.Containsf(t, errOut, c.want, "%v", c.args)
		require.True(t, strings.HasPrefix(errOut, "sojourn-runner: "))
		if c.args == nil || c.args[0] != "start" {
			require.Empty(t, out)
		}
	}
}
