package starter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/recordings"
)

// outcome is one run of the program.
type outcome struct {
	code     int
	out, err string
}

func program(t *testing.T, stdin io.Reader, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), args, func(string) string { return "" }, stdin, &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

// parsed runs parse as the command does, without its command line.
func parsed(agents adapters.Registry, file string) outcome {
	var out, errs bytes.Buffer
	c := &cli{stdout: &out, stderr: &errs, agents: agents}
	code := c.report(c.parse("claude", []string{file}), false)
	return outcome{code, out.String(), errs.String()}
}

// said returns a transcript line of Claude Code.
func said(n int) string {
	return fmt.Sprintf(`{"type":"user","uuid":"u%d","message":{"role":"user","content":"message %d"}}`+"\n", n, n)
}

// meddler is the real adapter, with another activity during the reading.
type meddler struct {
	*claude.Adapter
	meddle func()
}

func (m meddler) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range m.Adapter.Parse(sources) {
			m.meddle()
			if !yield(e, err) {
				return
			}
		}
	}
}

// A file that grows while it is read is read as it was: later lines are left out,
// which is reported, and a writer that never stops can't hold the reader.
func TestParseOfAFileThatGrows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meddle func(t *testing.T, file string)
		want   string
	}{
		"grows": {func(t *testing.T, file string) {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(said(3))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, "s1.jsonl:2: the file has grown while it was read"},
		"shrinks": {func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 10)) },
			"s1.jsonl:2: the file was cut while it was read"},
		"goes": {func(t *testing.T, file string) {
			if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
				require.NoError(t, err)
			}
		}, "s1.jsonl: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "s1.jsonl")
			writeFile(t, file, said(1)+said(2))
			still := program(t, nil, "parse", "--agent", "claude", file)
			require.Zero(t, still.code, still.err)

			got := parsed(adapters.New(meddler{claude.New(), func() { c.meddle(t, file) }}), file)
			require.Equal(t, 1, got.code)
			require.Contains(t, got.err, c.want)
			require.Equal(t, still.out, got.out, "what was there at first, and nothing else")
		})
	}
}

// A reader's position is the line that it was given last, however the bytes
// arrive, and however long the line is.
func TestLinesAreCountedAsTheyAreRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	text := "{\"dir\":\"out\",\"line\":\"1\"}\n\n" + long + "\n\xff\n5"
	for name, in := range map[string]io.Reader{
		"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)), "end with data": iotest.DataErrReader(strings.NewReader(text)),
	} {
		var garbled, at []int
		var got []string
		l := newLines(in, func(n int) error { garbled = append(garbled, n); return nil })
		require.True(t, l.empty)
		for r, err := range jsonl.DecodeRecords(l, jsonl.RecordOptions{Plain: true}) {
			require.NoError(t, err)
			at, got = append(at, l.number), append(got, r.Line)
		}
		require.Equal(t, []int{1, 3, 5}, at, name)
		require.Equal(t, []string{"1", long, "5"}, got, name)
		require.Equal(t, []int{4}, garbled, name)
		require.False(t, l.empty)
	}
	broken := newLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(fs.ErrClosed)), nil)
	read, err := io.ReadAll(broken)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Equal(t, "a\nb", string(read), "what came before the error")
}

// recorded returns real files of an agent by their suffix.
func recorded(t *testing.T, agent, ending string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(recordings.Dir(t, agent), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(filepath.ToSlash(path), ending) {
			found = append(found, path)
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// A transcript of a real session that lost half of a line, in the middle or at
// the end, makes what the same file makes without that line, and names it.
func TestParseOfRealTranscriptsWithABrokenLine(t *testing.T) {
	t.Parallel()
	for _, file := range recorded(t, "claude", ".jsonl") {
		if !strings.Contains(filepath.ToSlash(file), "/.claude/projects/") || strings.Contains(file, "subagents") {
			continue
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		all := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
		for _, broken := range []int{len(all) / 2, len(all) - 1} {
			dir := t.TempDir()
			without, with := filepath.Join(dir, "without", "s.jsonl"), filepath.Join(dir, "with", "s.jsonl")
			require.NoError(t, os.MkdirAll(filepath.Dir(without), 0o700))
			require.NoError(t, os.MkdirAll(filepath.Dir(with), 0o700))
			before, after := strings.Join(all[:broken], ""), strings.Join(all[broken+1:], "")
			writeFile(t, without, before+"\n"+after)
			half := all[broken][:len(all[broken])/2]
			if after != "" {
				half += "\n"
			}
			writeFile(t, with, before+half+after)
			want := parsed(builtin.Registry(), without)
			require.Zero(t, want.code, "%s: %s", file, want.err)
			got := parsed(builtin.Registry(), with)
			require.Equal(t, 1, got.code, file)
			require.Equal(t, want.out, got.out, "%s: line %d", file, broken+1)
			require.Contains(t, got.err, fmt.Sprintf("%s:%d: ", with, broken+1))
			require.Equal(t, 2, strings.Count(got.err, "\n"), "one line and a hint: %s", got.err)
		}
	}
}

// Every agent's real transcripts are refused for another agent, and make no
// events.
func TestParseOfAnotherAgentsTranscript(t *testing.T) {
	t.Parallel()
	files := map[string]map[string]string{} // by session: many recordings also have the earlier ones
	for _, of := range []string{"codex", "gemini"} {
		files[of] = map[string]string{}
		for _, file := range recorded(t, of, ".jsonl") {
			if strings.Contains(filepath.ToSlash(file), "transcripts/") {
				files[of][filepath.Base(file)] = file
			}
		}
		require.NotEmpty(t, files[of])
	}
	for of, found := range files {
		for _, file := range found {
			got := parsed(builtin.Registry(), file)
			require.Equal(t, 1, got.code, file)
			require.Equal(t, `{"blocks":[],"subagents":[]}`+"\n", got.out, "%s: %s", of, file)
			require.Contains(t, got.err, file+":1: ")
		}
	}
}

// failing is standard output without room.
type failing struct{}

func (failing) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: os.Stdout.Name(), Err: errors.New("no space left on device")}
}

// Output that can't be written is reported as such, whatever else is wrong with
// the input, and does not hint at servers.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s1.jsonl")
	writeFile(t, file, said(1)+"{\n")
	good := `{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}` + "\n"
	for _, args := range [][]string{
		{"parse", "--agent", "claude", file}, {"translate", "--agent", "claude", "--prompt", "hi"}, {"reduce"}, {"agents"}, {"agents", "--json"},
		{"reference"}, {"reference", "agents"},
	} {
		var errs bytes.Buffer
		code := Run(context.Background(), args, func(string) string { return "" }, strings.NewReader(good), failing{}, &errs)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs.String(), "sojourn: write to standard output: no space left on device\nsojourn: hint: ", args)
		require.NotContains(t, errs.String(), "doctor", args)
	}
}

// A text that is too long is refused for that, in any script: it is not read to its end.
func TestTooLongInputIsRefusedForItsLength(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("é", session.MaxMessageBytes)
	for _, args := range [][]string{{"send", "s1", "-"}, {"run", "--agent", "claude", "-"}} {
		got := program(t, strings.NewReader(text), args...)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, "message: is more than 1048576 bytes")
	}
}

// A reader that has stopped needs no explanation; a server that has ended the connection does.
func TestABrokenPipeIsReportedUnlessItIsTheReaders(t *testing.T) {
	t.Parallel()
	broken := os.NewSyscallError("write", syscall.EPIPE)
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}, ""},
		{&net.OpError{Op: "write", Net: "tcp", Err: broken}, "broken pipe"},
	} {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, (&cli{stderr: &errs}).report(fmt.Errorf("put: %w", c.err), false))
		if c.want == "" {
			require.Empty(t, errs.String())
		}
		require.Contains(t, errs.String(), c.want)
	}
}
