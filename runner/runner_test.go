//go:build linux

package runner_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
)

func TestConversation(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setup(t, mode)
		st := b.mustStart()
		require.Equal(t, runner.AgentRunning, st.State)
		require.Equal(t, mode == runner.IsolationRequire, st.Isolation.PID)
		c := b.dial()
		r := read(t, c, 0)
		require.Equal(t, "start", r.until(event.DirSig, "").Record.Line)
		r.until(event.DirOut, "ready")
		ack := say(t, c, "m1", "hello there")
		in := r.until(event.DirIn, "")
		require.Equal(t, "hello there", in.Record.Line)
		require.Equal(t, runner.Ack{Offset: in.Offset, Next: in.Next}, ack)
		require.WithinDuration(t, time.Now(), in.Record.TS, time.Minute)
		r.until(event.DirOut, "echo hello there")
		say(t, c, "m2", "complain aloud")
		require.Equal(t, "aloud", r.until(event.DirErr, "").Record.Line)
		say(t, c, "m3", "exit 3")
		require.Equal(t, "exit 3", r.until(event.DirSig, "").Record.Line)
		require.Empty(t, r.end(), "the stream ends after the exit record")
		now, err := c.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, runner.AgentExited, now.State)
		require.Equal(t, 3, *now.ExitCode)
		_, err = c.Input(t.Context(), "m4", []byte("too late"))
		require.ErrorIs(t, err, runner.ErrExited)
	})
}

// The poll of a runner's status: null means alive, an exit code terminated.
func TestR103PollNullIsAliveExitCodeIsTerminated(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	st, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Nil(t, st.ExitCode)
	st, err = c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.Equal(t, 0, *st.ExitCode)
}

func TestAttachFromOffsetIsExact(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.spec.SegmentBytes = 4 << 10 // many segments
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	var all []runner.Delivery
	for i := range 10 {
		say(t, c, "flood"+itoa(i), "flood 100")
		for range 100 {
			all = append(all, r.until("out", "line "))
		}
	}
	for i := 0; i < len(all); i += 97 {
		again := read(t, c, all[i].Offset)
		require.Equal(t, all[i], again.until("out", ""))
	}
	end := all[len(all)-1].Next
	live := read(t, c, end)
	say(t, c, "m2", "now")
	require.Equal(t, end, live.until(event.DirIn, "now").Offset)
	for _, bad := range []int64{all[5].Offset + 1, all[5].Next - 1, end + 1<<20, -1} {
		for _, err := range c.Records(t.Context(), bad) {
			require.ErrorIs(t, err, runner.ErrOffset, "from %d", bad)
		}
	}
	require.NoError(t, c.Trim(t.Context(), all[900].Offset))
	for _, err := range c.Records(t.Context(), 0) {
		require.ErrorIs(t, err, runner.ErrTrimmed)
	}
	require.Equal(t, all[900], read(t, c, all[900].Offset).until("out", ""))
}

func TestInputIsWrittenOncePerID(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	first := b.dial()
	ack := say(t, first, "m1", "once")
	require.False(t, ack.Duplicate)
	again := say(t, first, "m1", "once")
	require.True(t, again.Duplicate)
	require.Equal(t, ack.Offset, again.Offset)
	require.NoError(t, first.Close())

	second := b.dial()
	reattached := say(t, second, "m1", "other bytes, same id")
	require.True(t, reattached.Duplicate)
	require.False(t, reattached.Gone)
	_, err := second.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.Equal(t, 1, count(read(t, second, 0).end(), event.DirOut, "echo once"))
	require.NoError(t, second.Close())

	// The next agent process in the same folder has the id too, and reports that it
	// went to another one.
	require.Equal(t, 1, b.mustStart().RestartCount)
	third := say(t, b.dial(), "m1", "once")
	require.True(t, third.Duplicate)
	require.True(t, third.Gone)
}

func count(records []traffic.Record, dir event.Dir, prefix string) (n int) {
	for _, r := range records {
		if r.Dir == dir && strings.HasPrefix(r.Line, prefix) {
			n++
		}
	}
	return n
}

func TestOffsetsContinueOverRestartsOfTheAgent(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	say(t, c, "m1", "exit 7")
	r := read(t, c, 0)
	end := r.until(event.DirSig, "exit 7").Next
	r.end()
	// The old supervisor still waits for readers; the new start takes over.
	st := b.mustStart()
	require.Equal(t, 1, st.RestartCount)
	require.Equal(t, end, st.StartOffset)
	again := read(t, b.dial(), 0)
	again.until(event.DirSig, "exit 7")
	require.Equal(t, end, again.until(event.DirSig, "start").Offset)
}

func TestWorkerDeathLeavesTheAgentRunning(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	st := b.mustStart()
	// The client is a separate process, and it is killed.
	client, _ := attached(t, b)
	c := b.dial()
	ack := say(t, c, "m1", "flood 20000")
	require.NoError(t, client.Process.Kill())
	_ = client.Wait()
	require.NoError(t, c.Close())

	next := b.dial()
	require.Equal(t, st.Pid, next.Attached().Pid)
	r := read(t, next, ack.Next)
	for i := range 20000 {
		d := r.until(event.DirOut, "line ")
		if i == 19999 {
			require.Equal(t, "line 19999", d.Record.Line)
		}
	}
}

// A worker that does not read, since it was stopped or is slow, is waited for without taking
// processor time.
func TestAttachWaitsForItsReader(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	client, stdout := attached(t, b)
	c := b.dial()
	r := read(t, c, say(t, c, "m1", "flood 20000").Next)
	for !strings.HasSuffix(r.until(event.DirOut, "line ").Record.Line, " 19999") {
	}
	// Five looks in a row show the same processor time, which is counted in
	// hundredths of a second.
	var was, same int
	require.Eventually(t, func() bool {
		now := ticks(t, client.Process.Pid)
		if now != was {
			was, same = now, 0
		}
		same++
		return same > 5
	}, patience, 100*time.Millisecond, "a client whose reader does not read takes processor time")
	_, err := io.CopyN(io.Discard, stdout, 1<<20)
	require.NoError(t, err, "it continues once it is read")
}

// attached starts the program that connects a worker, and returns once it has said something.
func attached(t *testing.T, b *bench) (client *exec.Cmd, stdout io.Reader) {
	t.Helper()
	client = exec.Command(b.program, "attach", "--socket", b.spec.Socket, "--epoch", "1", "--from", "0")
	stdin, err := client.StdinPipe()
	require.NoError(t, err)
	stdout, err = client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() { _ = client.Process.Kill(); _ = client.Wait() }) // it may have ended
	_, err = stdin.Write([]byte(token + "\n"))
	require.NoError(t, err)
	_, err = stdout.Read(make([]byte, 1))
	require.NoError(t, err)
	return client, stdout
}

// ticks returns the processor time that a process has taken.
func ticks(t *testing.T, pid int) (total int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	// proc(5): behind the name, utime and stime are the 12th and 13th field.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		total += n
	}
	return total
}

// A line over the limit is cut while it is read; later lines are not affected.
func TestALongLineIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	const size = 20 << 20
	say(t, c, "m1", fmt.Sprint("big ", size))
	d := r.until(event.DirOut, "x")
	sum := sha256.Sum256(bytes.Repeat([]byte("x"), size))
	require.Equal(t, &traffic.Cut{Bytes: size, SHA256: hex.EncodeToString(sum[:])}, d.Record.Cut)
	require.Less(t, len(d.Record.Line), jsonl.DefaultMaxLine)
	say(t, c, "m2", "after")
	require.Nil(t, r.until(event.DirOut, "echo after").Record.Cut)
}

func TestA64MegabyteLinePasses(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.spec.MaxLine = 64 << 20
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	say(t, c, "m1", "big 67108864")
	d := r.until(event.DirOut, "x")
	require.Len(t, d.Record.Line, 64<<20)
	say(t, c, "m2", "after")
	r.until(event.DirOut, "echo after")
	// And in the other direction.
	big := strings.Repeat("y", 8<<20)
	say(t, c, "m3", "quiet "+big)
	say(t, c, "m4", "still there")
	r.until(event.DirOut, "echo still there")
}

func TestLastLineWithoutLineEndIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	say(t, c, "m1", "torn half a line")
	say(t, c, "m2", "exit 0")
	require.Equal(t, 1, count(read(t, c, 0).end(), event.DirOut, "half a line"))
}

func TestSlowReaderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	slow := read(t, c, 0)
	slow.until(event.DirSig, "start")   // and then no more for now
	say(t, c, "m1", "flood 12000 1000") // more than all buffers on the way hold
	ack := say(t, c, "m2", "done")
	fast := read(t, c, ack.Next)
	fast.until(event.DirOut, "echo done")
	_, err := c.Status(t.Context())
	require.NoError(t, err)
	slow.until(event.DirOut, "line 11999")
}

func TestEpochs(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.spec.Epoch = 5
	b.mustStart()
	_, err := b.dialAs(token, 4)
	require.ErrorIs(t, err, runner.ErrEpoch)
	old := b.dial()
	r := read(t, old, 0)
	r.until(event.DirOut, "ready")
	b.spec.Epoch = 6
	b.dial()
	_, err = old.Input(t.Context(), "m1", []byte("stale"))
	require.ErrorIs(t, err, runner.ErrEpoch)
	require.ErrorIs(t, old.Signal(t.Context(), syscall.SIGINT), runner.ErrEpoch)
	_, err = old.Stop(t.Context(), runner.Grace{})
	require.ErrorIs(t, err, runner.ErrEpoch)
	_, err, _ = r.next()
	require.ErrorIs(t, err, runner.ErrEpoch, "a running stream ends")
	b.spec.Epoch = 5
	_, err = b.start()
	require.ErrorIs(t, err, runner.ErrEpoch)
}

func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	st := b.mustStart()
	for _, wrong := range []string{"", "t0ke", "t0kenx"} {
		_, err := b.dialAs(wrong, 9)
		require.ErrorIs(t, err, runner.ErrToken)
	}
	require.EqualValues(t, 1, b.dial().Attached().Epoch, "a refused client raises no epoch")
	// It is in no argument, environment or file.
	for _, name := range []string{"cmdline", "environ"} {
		raw, err := os.ReadFile(filepath.Join("/proc", itoa(st.Supervisor), name))
		if errors.Is(err, os.ErrPermission) {
			continue // better still
		}
		require.NoError(t, err)
		require.NotContains(t, string(raw), token)
	}
	require.NoError(t, filepath.WalkDir(b.spec.Control, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, err := os.ReadFile(p)
			require.NoError(t, err)
			require.NotContains(t, string(raw), token, p)
		}
		return err
	}))
}

func TestSecondStartIsRefusedWhileTheAgentLives(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationAuto)
	b.mustStart()
	b.spec.Epoch = 2
	_, err := b.start()
	require.ErrorIs(t, err, runner.ErrRunning)
}

func TestBadStartsSayWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*runner.StartSpec)
		want   string
	}{
		"no program":     {func(s *runner.StartSpec) { s.Argv = []string{"no-such-program"} }, `program "no-such-program" is not in the agent's PATH`},
		"no argv":        {func(s *runner.StartSpec) { s.Argv = nil }, `field "argv" is empty`},
		"no token":       {func(s *runner.StartSpec) { s.Token = "" }, `field "token" is empty`},
		"relative dir":   {func(s *runner.StartSpec) { s.Dir = "x" }, `field "dir" is "x"`},
		"no such dir":    {func(s *runner.StartSpec) { s.Dir = "/no/such/dir" }, "/no/such/dir"},
		"transport":      {func(s *runner.StartSpec) { s.Transport = "http" }, `field "transport" is "http"`},
		"long socket":    {func(s *runner.StartSpec) { s.Socket = "/" + strings.Repeat("s", 107) }, "has 108 bytes, the system allows 107"},
		"helper's path":  {func(s *runner.StartSpec) { s.Helpers = []string{"bin/helper"} }, `field "helpers" has "bin/helper", want the name of a program`},
		"kept by a link": {func(s *runner.StartSpec) { s.Isolation.Keep = []string{"/proc/self/cwd"} }, `field "isolation.keep" has /proc/self/cwd, which is a symbolic link to`},
		"isolation mode": {func(s *runner.StartSpec) { s.Isolation.Mode = "some" }, `field "isolation.mode" is "some"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, runner.IsolationAuto)
			c.change(&b.spec)
			_, err := b.start()
			require.ErrorContains(t, err, c.want)
			state, err := host.Look(b.spec.Control)
			require.NoError(t, err)
			require.False(t, state.Alive)
		})
	}
}
