package spool_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/spool"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// survey reads a spool to its end and returns what could be read, and which bytes
// are reported as lost: gaps, and damaged records.
func survey(t *testing.T, s *spool.Spool, from int64) (texts []string, lost [][2]int64) {
	t.Helper()
	r, err := s.Reader(from)
	require.NoError(t, err)
	defer r.Close()
	pos := from
	for {
		at, raw, err := r.Next(64)
		require.Equal(t, pos, at, "nothing is left out in silence")
		if gap, ok := errors.AsType[*spool.Gap](err); ok {
			require.Equal(t, pos, gap.From)
			lost, pos = append(lost, [2]int64{gap.From, gap.To}), gap.To
			continue
		}
		require.NoError(t, err)
		if len(raw) == 0 {
			return texts, lost
		}
		for l := range bytes.Lines(raw) {
			rec, err := wire.DecodeSummed(bytes.TrimSuffix(l, []byte{'\n'}))
			next := pos + int64(len(l))
			if err != nil {
				lost = append(lost, [2]int64{pos, next})
			} else {
				texts = append(texts, rec.Line)
			}
			pos = next
		}
	}
}

// spooled makes a spool of numbered records, three to a segment, and returns the
// offset of each, and the end.
func spooled(t *testing.T, n int) (dir string, at []int64) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, 200)
	for i := range n {
		a, next, err := s.Append(line("record " + strconv.Itoa(i)))
		require.NoError(t, err)
		at = append(at, a)
		if i == n-1 {
			at = append(at, next)
		}
	}
	require.NoError(t, s.Close())
	return dir, at
}

// segmentOf returns the file of a byte and its position in it.
func segmentOf(t *testing.T, dir string, pos int64) (path string, local int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	for _, f := range files {
		start, err := strconv.ParseInt(filepath.Base(f)[:20], 10, 64)
		require.NoError(t, err)
		if start <= pos {
			path, local = f, pos-start
		}
	}
	return path, local
}

func flip(t *testing.T, dir string, pos int64) {
	t.Helper()
	path, local := segmentOf(t, dir, pos)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[local] ^= 0x04
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// If any one byte of a spool is changed, the records that it does not touch are
// read, and those that it touches are named.
func TestDamageOfAnyByte(t *testing.T) {
	t.Parallel()
	const n = 7
	whole, at := spooled(t, n)
	for pos := range at[n] {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		flip(t, dir, pos)
		for _, load := range []func() (*spool.Spool, error){
			func() (*spool.Spool, error) { return spool.Load(dir) },
			func() (*spool.Spool, error) { return spool.Open(dir, 200, at[n]) },
		} {
			s, err := load()
			require.NoError(t, err)
			texts, lost := survey(t, s, 0)
			require.GreaterOrEqual(t, len(texts), n-2, "byte %d", pos)
			if pos < at[n-1] {
				require.NotEmpty(t, lost, "byte %d", pos)
			}
			require.NoError(t, s.Close())
		}
	}
}

// A truncated or missing segment is named; later ones are read.
func TestDamageOfSegments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(path string) error
		want   []string
		from   int
	}{
		"missing":   {os.Remove, []string{"record 0", "record 1", "record 2", "record 6", "record 7"}, 3},
		"empty":     {func(path string) error { return os.Truncate(path, 0) }, []string{"record 0", "record 1", "record 2", "record 6", "record 7"}, 3},
		"truncated": {func(path string) error { return os.Truncate(path, 100) }, []string{"record 0", "record 1", "record 2", "record 3", "record 6", "record 7"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, at := spooled(t, 8)
			path, local := segmentOf(t, dir, at[3])
			require.Zero(t, local, "a segment begins here")
			live := open(t, dir, 200)
			require.NoError(t, c.damage(path))
			loaded, err := spool.Load(dir)
			require.NoError(t, err)
			for _, s := range []*spool.Spool{live, loaded} {
				texts, lost := survey(t, s, 0)
				require.Equal(t, c.want, texts)
				require.Equal(t, [][2]int64{{at[c.from], at[6]}}, lost)
				texts, _ = survey(t, s, at[5])
				require.Equal(t, []string{"record 6", "record 7"}, texts, "from what is lost")
			}
		})
	}
}

// The open segment is truncated under a live spool: what is appended then is lost
// with it, once, and named.
func TestDamageUnderALiveSpool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	for i := range 4 {
		_, _, err := s.Append(line("record " + strconv.Itoa(i)))
		require.NoError(t, err)
	}
	path, _ := segmentOf(t, dir, 0)
	require.NoError(t, os.Truncate(path, 100))
	for i := range 2 {
		_, _, err := s.Append(line("after " + strconv.Itoa(i)))
		require.NoError(t, err)
	}
	texts, lost := survey(t, s, 0)
	require.Equal(t, []string{"record 0", "after 1"}, texts)
	require.Len(t, lost, 1)
}

// A spool that has lost its end continues at the old end: no offset is assigned
// twice.
func TestDamageAtTheEnd(t *testing.T) {
	t.Parallel()
	dir, at := spooled(t, 8)
	last, _ := segmentOf(t, dir, at[7])
	require.NoError(t, os.Remove(last))
	short := open(t, dir, 200)
	_, err := short.Reader(at[8])
	require.ErrorIs(t, err, runner.ErrOffset)
	require.ErrorContains(t, err, strconv.FormatInt(at[8], 10))
	require.NoError(t, short.Close())

	s, err := spool.Open(dir, 200, at[8])
	require.NoError(t, err)
	got, _, err := s.Append(line("next"))
	require.NoError(t, err)
	require.Equal(t, at[8], got)
	texts, lost := survey(t, s, 0)
	require.Equal(t, []string{"record 0", "record 1", "record 2", "record 3", "record 4", "record 5", "next"}, texts)
	require.Equal(t, [][2]int64{{at[6], at[8]}}, lost)
	require.NoError(t, s.Trim(at[8]))
	first, _ := s.Bounds()
	require.Equal(t, at[8], first)
	require.NoError(t, s.Close())
}

// A segment that is missing does not keep the others from being trimmed.
func TestTrimOfAMissingSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1)
	var at []int64
	for i := range 4 {
		a, _, err := s.Append(line(strconv.Itoa(i)))
		require.NoError(t, err)
		at = append(at, a)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(files[0]))
	require.NoError(t, s.Trim(at[3]))
	first, _ := s.Bounds()
	require.Equal(t, at[3], first)
	require.NoError(t, s.Close())
}

// Records of runners that wrote no checksums are read unchecked.
func TestSpoolWithoutChecksums(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var old []byte
	for _, text := range []string{"one", `{"two":"\\"}`} {
		old = append(wire.AppendJSON(old, line(text)), '\n')
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "00000000000000000000.jsonl"), old, 0o600))
	s := open(t, dir, 1<<20)
	_, _, err := s.Append(traffic.Record{TS: stamp, Dir: event.DirErr, Line: "three"})
	require.NoError(t, err)
	texts, lost := survey(t, s, 0)
	require.Equal(t, []string{"one", `{"two":"\\"}`, "three"}, texts)
	require.Empty(t, lost)
}
