package adapters

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A torn last line is moved to a file of its own, once, and nothing of it is lost.
func TestWholeLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for name, c := range map[string]struct{ whole, torn string }{
		"empty":                 {},
		"whole":                 {"one\ntwo\n", ""},
		"torn":                  {"one\n", "tw"},
		"the first is torn":     {"", "on"},
		"a long line":           {long + "\n", ""},
		"behind a long line":    {long + "\n", "t"},
		"a long line is torn":   {"one\n", long},
		"the only one, as long": {"", long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			home, err := OpenHome(dir)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.whole+c.torn), 0o600))
			found := []Transcript{{Path: "f", Kind: Append}, {Path: "database", Kind: Snapshot}}
			files, err := WholeLines(home, found)
			require.NoError(t, err)
			if c.torn == "" {
				require.Empty(t, files)
				return
			}
			require.Len(t, files, 2)
			for i, want := range []string{c.torn, c.whole} {
				in, err := files[i].Open(home)
				require.NoError(t, err)
				data, err := io.ReadAll(in)
				require.NoError(t, errors.Join(err, in.Close()))
				require.Equal(t, want, string(data))
			}
			require.Equal(t, []string{"f.torn", "f"}, []string{files[0].Path, files[1].Path}, "what is moved is there before it goes")
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.whole), 0o600))
			files, err = WholeLines(home, found)
			require.NoError(t, err)
			require.Empty(t, files)
		})
	}
}

// short is a home whose files can't be read to their ends.
type short struct{ DirHome }

func (s short) OpenAt(string, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

func TestWholeLinesLeavesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, err := OpenHome(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("one\ntw"), 0o600))
	files, err := WholeLines(short{home}, []Transcript{{Path: "f", Kind: Append}})
	require.NoError(t, err)
	require.Empty(t, files)
}
