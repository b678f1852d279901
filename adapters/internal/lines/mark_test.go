package lines

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event/jsonl"
)

// Reading continues behind the last whole line, however long it is; a file that
// is not the one of the mark is recognised.
func TestOpenAtGoesOnBehindAMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	put := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600))
	}
	read := func(at Mark) (found []string, next Mark) {
		t.Helper()
		r, err := OpenAt("a", home, "f", at)
		require.NoError(t, err)
		defer r.Close()
		require.NoError(t, r.Followed(func(line []byte) { found = append(found, string(line)) }))
		return found, r.Mark()
	}
	put("one\n\ntw")
	found, at := read(Mark{})
	require.Equal(t, []string{"one\n"}, found)
	require.EqualValues(t, 5, at.Offset)
	found, same := read(at)
	require.Empty(t, found)
	require.Equal(t, at, same)

	long := strings.Repeat("x", jsonl.DefaultMaxLine+1)
	put("one\n\ntwo\n" + long)
	found, at = read(at)
	require.Equal(t, []string{"two\n"}, found)
	put("one\n\ntwo\n" + long + "\nthree\n")
	found, at = read(at)
	require.Len(t, found, 2)
	require.Less(t, len(found[0]), len(long), "it is cut")
	require.Equal(t, "three\n", found[1])
	require.EqualValues(t, len("one\n\ntwo\n\nthree\n")+len(long), at.Offset)

	for _, other := range []string{"", "one\n", "one\n\ntwo\n" + long + "\nTHREE\nfour\n"} {
		put(other)
		_, err := OpenAt("a", home, "f", at)
		require.ErrorIs(t, err, ErrAnother)
	}
	_, err = OpenAt("a", home, "none", Mark{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, io.EOF)
}
