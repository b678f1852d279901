//go:build linux

package runner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/test/skip"
)

// damage changes a file as a bad disk would.
func damage(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(data), from), "%s in %s", from, path)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600))
}

// A flipped byte under a live agent: the record is named, later ones are
// delivered, and the agent continues.
func TestDamageInTheSpool(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone)
	b.mustStart()
	c := b.dial()
	for _, word := range []string{"one", "two", "three"} {
		say(t, c, word, word)
	}
	whole := read(t, c, 0)
	bad := whole.until(event.DirOut, "echo two")
	whole.until(event.DirOut, "echo three")
	damage(t, filepath.Join(b.spec.Control, "spool", "00000000000000000000.jsonl"), "echo two", "echo tvo")

	var lines []string
	var faults []error
	var next int64
	for d, err := range c.Records(t.Context(), 0) {
		require.Equal(t, next, d.Offset, "nothing is left out in silence")
		next = d.Next
		if err != nil {
			require.Equal(t, bad.Offset, d.Offset)
			faults = append(faults, err)
			continue
		}
		lines = append(lines, d.Record.Line)
		if strings.HasPrefix(d.Record.Line, "echo three") {
			break
		}
	}
	require.Len(t, faults, 1)
	require.ErrorIs(t, faults[0], runner.ErrDamaged)
	require.ErrorContains(t, faults[0], "spool at byte")
	require.NotContains(t, strings.Join(lines, "\n"), "echo tvo")
	say(t, c, "four", "four")

	_, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	out, said, code := b.run("", "records", "--control", b.spec.Control)
	require.Equal(t, 1, code)
	require.Contains(t, said, "spool at byte")
	require.Contains(t, said, "1 places of the spool are damaged")
	require.Contains(t, out, "echo four")
	require.NotContains(t, out, "echo tvo")
}

// What can't be read of the control folder is named by the next runner; inputs of
// the former process don't count as the new one's.
func TestDamageInTheControlFolder(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone)
	old := b.mustStart()
	c := b.dial()
	say(t, c, "one", "hello one")
	say(t, c, "two", "hello two")
	_, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	// A start beside the old supervisor would read its status.
	require.Eventually(t, func() bool { return syscall.Kill(old.Supervisor, 0) == syscall.ESRCH }, patience, 5*time.Millisecond)
	damage(t, filepath.Join(b.spec.Control, "inputs.jsonl"), `{"key":"one"`, `{"key":"one`)
	require.NoError(t, os.WriteFile(filepath.Join(b.spec.Control, "status.json"), []byte(`{"state":`), 0o600))

	st := b.mustStart()
	require.Len(t, st.Damage, 2)
	require.Contains(t, st.Damage[0], "status.json")
	require.Contains(t, st.Damage[1], "inputs.jsonl: the line at byte 0 is damaged")
	require.Equal(t, 1, st.RestartCount, "as the journal knows")
	c = b.dial()
	ack := say(t, c, "two", "hello two")
	require.True(t, ack.Duplicate)
	require.True(t, ack.Gone)
	require.False(t, say(t, c, "one", "hello one").Duplicate)
	require.False(t, say(t, c, "three", "hello three").Duplicate)
	read(t, c, st.StartOffset).until(event.DirOut, "echo hello three")
}

// A spool that lost its end, as the starter knows, continues behind it.
func TestDamageAtTheSpoolsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, runner.IsolationNone)
	b.mustStart()
	c := b.dial()
	say(t, c, "one", "one")
	st, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(b.spec.Control, "spool")))
	b.spec.SpoolFrom = st.SpoolEnd
	again := b.mustStart()
	require.Equal(t, st.SpoolEnd, again.StartOffset)
	c = b.dial()
	for _, err := range c.Records(t.Context(), st.SpoolEnd+1_000_000) {
		require.ErrorIs(t, err, runner.ErrOffset)
		require.ErrorContains(t, err, "records from")
	}
	say(t, c, "two", "two")
	read(t, c, st.SpoolEnd).until(event.DirOut, "echo two")
}

// otherVersion is a runner that speaks other versions of the protocol.
func otherVersion(t *testing.T, st runner.Status) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	go func() {
		in := bufio.NewReader(theirs)
		line, err := in.ReadBytes('\n')
		var req struct{ ID uint64 }
		if err != nil || json.Unmarshal(line, &req) != nil {
			return
		}
		status, _ := json.Marshal(st)
		reply, _ := json.Marshal(map[string]any{"id": req.ID, "result": json.RawMessage(status)})
		_, _ = theirs.Write(append(reply, '\n'))
		_, _ = in.ReadByte()
	}()
	return ours
}

// A runner of another release than the worker's is either understood, or refused
// with the version named.
func TestRunnerOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protocol, from int
		want           string
	}{
		"before versions":    {0, 0, ""},
		"the same":           {runner.Protocol, runner.ProtocolFrom, ""},
		"newer, understands": {99, runner.Protocol, ""},
		"newer":              {99, 98, "the runner (process 17) understands versions 98 to 99 of the protocol, this worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := runner.Status{State: runner.AgentRunning, Supervisor: 17, Protocol: c.protocol, ProtocolFrom: c.from}
			conn, err := runner.Dial(t.Context(), otherVersion(t, st), token, 1)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				return
			}
			require.ErrorIs(t, err, runner.ErrVersion)
			require.ErrorContains(t, err, c.want)
		})
	}
	b := setup(t, runner.IsolationNone)
	st := b.mustStart()
	require.Equal(t, runner.Protocol, st.Protocol)
	require.Equal(t, runner.ProtocolFrom, st.ProtocolFrom)
}

// smallDisk mounts a file system of that many bytes. The test is skipped where
// that is not allowed.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("sojourn-test", dir, "tmpfs", 0, "size="+size); err != nil {
		skip.Without(t, fmt.Sprintf("a small disk, which root can mount: %v", err))
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// onSmallDisk starts an agent whose records are on a disk of 1 MiB.
func onSmallDisk(t *testing.T) (disk string, b *bench, c *runner.Conn) {
	t.Helper()
	disk = smallDisk(t, "1m")
	b = setup(t, runner.IsolationNone)
	b.spec.Control = filepath.Join(disk, "control")
	b.mustStart()
	c = b.dial()
	say(t, c, "fine", "fine")
	read(t, c, 0).until(event.DirOut, "echo fine")
	return disk, b, c
}

// On a full disk the agent is ended and the spool has the reason. Nothing is
// torn, and when there is space again the next agent starts.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk, b, c := onSmallDisk(t)
	ballast := filepath.Join(disk, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600), unix.ENOSPC)
	_, err := c.Input(t.Context(), "flood", []byte("big 300000\n"))
	if err != nil {
		require.ErrorContains(t, err, "no space left")
	}
	all := read(t, c, 0).end()
	end := all[len(all)-1]
	require.Equal(t, event.DirSig, end.Dir)
	require.Contains(t, end.Line, "signal killed (spool: append: ")
	require.Contains(t, end.Line, "no space left on device")
	st, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, runner.AgentExited, st.State)
	require.Contains(t, st.Fault, "no space left on device")
	require.NoError(t, c.Close())

	// Without space the start of another agent is refused with that reason.
	fill(t, filepath.Join(disk, "more"))
	_, err = b.start()
	require.ErrorContains(t, err, "no space left on device")

	require.NoError(t, errors.Join(os.Remove(ballast), os.Remove(filepath.Join(disk, "more"))))
	again := b.mustStart()
	require.Empty(t, again.Damage)
	c = b.dial()
	say(t, c, "next", "next")
	read(t, c, again.StartOffset).until(event.DirOut, "echo next")
	_, err = c.Stop(context.WithoutCancel(t.Context()), runner.Grace{})
	require.NoError(t, err)
}

// A line that did not fit is the last of the agent's: the space that is kept for the
// record of its end is not for the lines behind it.
func TestFullDiskLeavesNoGap(t *testing.T) {
	t.Parallel()
	disk, _, c := onSmallDisk(t)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	full, err := os.Stat(ballast)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(ballast, full.Size()-16<<10))
	_, err = c.Input(t.Context(), "flood", []byte("big 65535 300\n"))
	require.NoError(t, err)
	all := read(t, c, 0).end()
	require.Contains(t, all[len(all)-1].Line, "no space left on device")
	for _, r := range all {
		require.NotEqual(t, "behind", r.Line)
	}
}

// fill uses up all the space.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
}
