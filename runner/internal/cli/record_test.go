//go:build linux

package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner/internal/spool"
	"github.com/sojourn-run/sojourn/test/skip"
)

// asRunner makes the test program the runner.
const asRunner = "SOJOURN_TEST_AS_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(asRunner) != "" {
		os.Exit(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// recording is a call of record with a shell script as its program.
func recording(t *testing.T, file, script string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "record", "--file", file, "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), asRunner+"=1")
	return cmd
}

func recordsIn(t *testing.T, file string) (lines map[event.Dir][]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines = map[event.Dir][]string{}
	for r, err := range jsonl.DecodeRecords(bytes.NewReader(data), jsonl.RecordOptions{}) {
		require.NoError(t, err)
		require.False(t, r.TS.IsZero())
		lines[r.Dir] = append(lines[r.Dir], r.Line)
	}
	return lines
}

func TestRecordRelaysBothWays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deep", "er", "session.jsonl")
	cmd := recording(t, file, `read a; echo "got $a"; echo aside >&2; cat; printf 'no end'; exit 7`)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("one\n\xff\ntwo"), &out, &errOut
	require.Error(t, cmd.Run())
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	require.Equal(t, "got one\n\xff\ntwono end", out.String())
	require.Equal(t, "aside\n", errOut.String())
	got := recordsIn(t, file)
	require.Equal(t, []string{"one", "\xff", "two"}, got[event.DirIn])
	require.Equal(t, []string{"got one", "\xff", "twono end"}, got[event.DirOut])
	head, err := os.ReadFile(file + headSuffix)
	require.NoError(t, err)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(head))
}

// A line is in the file before it is passed on.
func TestRecordBeforePassingOn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	cmd := recording(t, file, `while read line; do grep -c "$line" "`+file+`"; done`)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	reply := make([]byte, 16)
	for _, word := range []string{"first", "second"} {
		_, err = io.WriteString(in, word+"\n")
		require.NoError(t, err)
		n, err := out.Read(reply)
		require.NoError(t, err)
		require.Equal(t, "1\n", string(reply[:n]), "the program did not find the line that it was given")
		require.Contains(t, recordsIn(t, file)[event.DirOut], "1")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func TestRecordLongLine(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	file := filepath.Join(t.TempDir(), "session.jsonl")
	cmd := recording(t, file, `head -c 20971520 /dev/zero | tr '\0' x; echo; echo end`)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Run())
	require.Equal(t, size+len("\nend\n"), out.Len())
	got := recordsIn(t, file)[event.DirOut]
	require.Len(t, got, 2)
	require.Len(t, got[0], size)
	info, err := os.Stat(file + headSuffix)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(headSize))
}

// The next process's records follow those that are there.
// TestRecordForABusyReader: all that a program wrote is passed on, though its reader takes none
// of it for longer than an ended program's output is waited for.
func TestRecordForABusyReader(t *testing.T) {
	skip.InShort(t, "TestRecordRelaysBothWays has a reader that is quick")
	t.Parallel()
	dir := t.TempDir()
	// Two pipes hold so much, one on each side of the recorder.
	cmd := recording(t, filepath.Join(dir, "session.jsonl"), "seq 100001 118000; touch "+filepath.Join(dir, "written"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "written"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	<-time.After(drain + time.Second) // a busy reader: its time is what is tested
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.True(t, strings.HasSuffix(string(text), "\n118000\n"), "%d bytes", len(text))
}

// TestRecordEndsBeforeItsGrandchildren: a process that the program left behind, and that has
// its output, does not hold it up.
func TestRecordEndsBeforeItsGrandchildren(t *testing.T) {
	t.Parallel()
	out, err := recording(t, filepath.Join(t.TempDir(), "session.jsonl"), "echo said; sleep 600 2>/dev/null & echo $!").Output()
	require.NoError(t, err)
	said := strings.Fields(string(out))
	require.Len(t, said, 2)
	left, err := strconv.Atoi(said[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL), "it is still there")
}

func TestRecordAppends(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	whole := string(traffic.Append(nil, traffic.Record{TS: time.Unix(1, 0), Dir: event.DirOut, Line: strings.Repeat("x", 200_000)})) + "\n"
	require.NoError(t, os.WriteFile(file, []byte(whole), 0o600))
	require.NoError(t, recording(t, file, "echo next").Run())
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), whole))
	require.Equal(t, "next", recordsIn(t, file)[event.DirOut][1])
}

func TestRecordForwardsSignals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	cmd := recording(t, file, `trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, ready)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, "caught\n", string(rest))
	require.Error(t, cmd.Wait())
	require.Equal(t, 3, cmd.ProcessState.ExitCode())
}

// A recorder that is killed takes its program with it.
func TestRecordKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	cmd := recording(t, file, `echo $$; exec 1>&-; exec sleep 3000`)
	alive, hold, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{hold}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, hold.Close())
	pid := make([]byte, 16)
	_, err = out.Read(pid)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_, err = io.Copy(io.Discard, alive) // until no process holds the other end
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
}

// A line that can't be recorded is not passed on: the program is ended.
func TestRecordFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		skip.Without(t, "/dev/full")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	head, err := os.Create(filepath.Join(t.TempDir(), "head"))
	require.NoError(t, err)
	r := &recorder{file: full, head: head}
	var out bytes.Buffer
	_, err = r.run([]string{"sh", "-c", "echo hello; exec sleep 3000"}, io3{strings.NewReader(""), &out, io.Discard})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Empty(t, out.String())
	require.NoError(t, r.close())
}

func TestRecordUsage(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	require.Equal(t, 2, Run([]string{"record", "--", "true"}, nil, io.Discard, &errOut))
	require.Contains(t, errOut.String(), "--file is missing")
	file := filepath.Join(t.TempDir(), "f")
	require.Equal(t, 2, Run([]string{"record", "--file", file}, nil, io.Discard, &errOut))
	require.Equal(t, 1, Run([]string{"record", "--file", file, "--", "/no/such/program"}, strings.NewReader(""), io.Discard, &errOut))
	require.Contains(t, errOut.String(), "/no/such/program")
}

// records starts at the first remaining record of a spool whose beginning was trimmed.
func TestRecordsOfATrimmedSpool(t *testing.T) {
	t.Parallel()
	control := t.TempDir()
	s, err := spool.Open(filepath.Join(control, "spool"), 1, 0)
	require.NoError(t, err)
	var last int64
	for _, text := range []string{"one", "two", "three"} {
		last, _, err = s.Append(traffic.Record{TS: time.Unix(1, 0), Dir: event.DirOut, Line: text})
		require.NoError(t, err)
	}
	require.NoError(t, s.Trim(last))
	require.NoError(t, s.Close())
	var out, said bytes.Buffer
	require.Zero(t, Run([]string{"records", "--control", control}, strings.NewReader(""), &out, &said), said.String())
	require.Contains(t, out.String(), `"three"`)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.NotZero(t, Run([]string{"records", "--control", control, "--from", "0"}, strings.NewReader(""), &out, &said), "what was asked for is gone")
}

// The values of MCP servers' environments and headers reach the program and not the record.
func TestRecordsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "session.jsonl")
	const request = `{"id":7,"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/w","mcpServers":[` +
		`{"name":"a","command":"x","args":["y"],"env":[{"name":"TOKEN","value":"s3cret"}]},{"type":"http","name":"b","url":"http://h","headers":[{"name":"Authorization","value":"s3cret"}]}]}}`
	const prompt = `{"method":"session/prompt","params":{"prompt":[{"text":"what is \"mcpServers\"? s3cret"}]}}`
	cmd := recording(t, file, "cat")
	cmd.Stdin = strings.NewReader(request + "\n" + prompt + "\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, request+"\n"+prompt+"\n", string(out))
	lines := recordsIn(t, file)[event.DirIn]
	require.NotContains(t, lines[0], "s3cret")
	require.JSONEq(t, strings.ReplaceAll(request, "s3cret", ""), lines[0])
	require.Equal(t, prompt, lines[1])
}
