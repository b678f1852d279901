package folder

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive/store"
)

// writesTo names the folder that a child process of the tests writes to.
const writesTo = "SOJOURN_TEST_WRITES_TO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writesTo); dir != "" {
		fmt.Fprintln(os.Stderr, writeOnAndOn(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// numbered is the n-th content of the object that is written: one letter, many times.
func numbered(n int) []byte { return bytes.Repeat([]byte{'a' + byte(n%26)}, 100_000+n) }

// writeOnAndOn replaces an object by the next one again and again, and says which it has written.
func writeOnAndOn(dir string) error {
	f, err := Open(dir)
	if err != nil {
		return err
	}
	for ctx := context.Background(); ; {
		data, tag, err := f.Get(ctx, "d/object")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n := 0
		if len(data) > 0 {
			n = len(data) - 100_000 + 1
		}
		switch _, err := f.Swap(ctx, "d/object", tag, numbered(n)); {
		case errors.Is(err, store.ErrChanged): // the other one was first
		case err != nil:
			return err
		default:
			fmt.Println(n)
		}
	}
}

// Writers that are killed at any moment leave the object whole, as it was or as it was to be, no
// lock, and nothing that a listing shows. Two at once lose nothing of each other's.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	f := opened(t, t.TempDir())
	require.NoError(t, f.Setup(t.Context()))
	written := map[int]bool{}
	for round := range 10 {
		writers := []*writer{startWriter(t, f.dir), startWriter(t, f.dir)}
		for _, w := range writers {
			for range 1 + round { // they are killed while they write what comes behind these
				w.next(t, written)
			}
		}
		for _, w := range writers {
			require.NoError(t, w.cmd.Process.Kill())
		}
		for _, w := range writers {
			w.rest(t, written)
		}
		data, tag, err := f.Get(t.Context(), "d/object")
		require.NoError(t, err)
		n := len(data) - 100_000
		require.Equal(t, string(numbered(n)), string(data), "whole")
		for said := range written {
			require.GreaterOrEqual(t, n, said, "what was said to be written is")
		}
		_, err = f.Swap(t.Context(), "d/object", tag, numbered(n+1))
		require.NoError(t, err, "no lock is left")
		written[n+1] = true
		for o, err := range f.List(t.Context(), "", "", false) {
			require.NoError(t, err)
			require.Equal(t, "d/object", o.Name)
		}
	}
}

// writer is a process that writes the object.
type writer struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writesTo+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &writer{cmd, bufio.NewScanner(out)}
}

// next notes the next content that the writer has written, and the other one has not.
func (w *writer) next(t *testing.T, written map[int]bool) {
	t.Helper()
	require.True(t, w.out.Scan(), "the writer has ended")
	n, err := strconv.Atoi(w.out.Text())
	require.NoError(t, err)
	require.False(t, written[n], "%d was written twice: the first write is lost", n)
	written[n] = true
}

// rest notes what the writer wrote before it was killed.
func (w *writer) rest(t *testing.T, written map[int]bool) {
	t.Helper()
	for w.out.Scan() {
		n, err := strconv.Atoi(w.out.Text())
		require.NoError(t, err)
		require.False(t, written[n], "%d was written twice: the first write is lost", n)
		written[n] = true
	}
	_ = w.cmd.Wait() // it was killed
}
