package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
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

// writeOnAndOn replaces an object by the next one again and again, and says when it begins.
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
		if _, err := f.Swap(ctx, "d/object", tag, numbered(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A writer that is killed at any moment leaves the object whole, as it was or as it was to be, no
// lock, and nothing that a listing shows.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	f := opened(t, t.TempDir())
	require.NoError(t, f.Setup(t.Context()))
	last := -1
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writesTo+"="+f.dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var said strings.Builder
		cmd.Stderr = &said
		require.NoError(t, cmd.Start())
		for range 1 + round { // it is killed while it writes what comes behind these
			_, err := fmt.Fscanln(out, &last)
			require.NoError(t, err, said.String())
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed

		data, tag, err := f.Get(t.Context(), "d/object")
		require.NoError(t, err)
		n := len(data) - 100_000
		require.GreaterOrEqual(t, n, last, "what was said to be written is")
		require.Equal(t, string(numbered(n)), string(data), "whole")
		_, err = f.Swap(t.Context(), "d/object", tag, numbered(n+1))
		require.NoError(t, err, "no lock is left")
		for o, err := range f.List(t.Context(), "", "", false) {
			require.NoError(t, err)
			require.Equal(t, "d/object", o.Name)
		}
	}
}
