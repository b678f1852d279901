package lines

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

func source(r io.Reader) adapters.Source {
	return adapters.Source{Transcript: adapters.Transcript{Path: "x.jsonl"}, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

// A bad line costs that line, a read error costs the rest, and both are named.
func TestEach(t *testing.T) {
	t.Parallel()
	r, err := Open("a", source(io.MultiReader(strings.NewReader("one\nbad\nthree\nfo"), iotest.ErrReader(errors.New("torn")))))
	require.NoError(t, err)
	defer r.Close()
	var good, faults []string
	r.Each(func() bool { return true }, func(line []byte) error {
		if string(line) == "bad\n" {
			return errors.New("is bad")
		}
		good = append(good, string(line))
		return nil
	}, func(err error) { faults = append(faults, err.Error()) })
	require.Equal(t, []string{"one\n", "three\n"}, good)
	require.Equal(t, []string{"a: transcript x.jsonl: line 2: is bad", "a: transcript x.jsonl: line 4: torn"}, faults)
}

// The last line may be incomplete, and reading stops when the caller wants no
// more.
func TestEachEnds(t *testing.T) {
	t.Parallel()
	for want, most := range map[string]int{"one\n": 1, "one\ntwo": 9} {
		r, err := Open("a", source(strings.NewReader("one\ntwo")))
		require.NoError(t, err)
		got, n := "", 0
		r.Each(func() bool { return n < most }, func(line []byte) error {
			got, n = got+string(line), n+1
			return nil
		}, func(err error) { t.Error(err) })
		require.Equal(t, want, got)
		r.Close()
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	_, err := Open("a", adapters.Source{Transcript: adapters.Transcript{Path: "x"}, Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "a: open transcript x: ")
}
