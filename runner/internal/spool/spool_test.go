package spool_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/spool"
)

var stamp = time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC)

func line(text string) traffic.Record {
	return traffic.Record{TS: stamp, Dir: event.DirOut, Line: text}
}

func open(t *testing.T, dir string, size int64) *spool.Spool {
	t.Helper()
	s, err := spool.Open(dir, size, 0)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// all reads from an offset to the end, in steps of about want bytes.
func all(t *testing.T, s *spool.Spool, from int64, want int) []traffic.Record {
	t.Helper()
	r, err := s.Reader(from)
	require.NoError(t, err)
	defer r.Close()
	var out []traffic.Record
	for {
		at, raw, err := r.Next(want)
		require.NoError(t, err)
		if len(raw) == 0 {
			return out
		}
		require.Equal(t, from, at)
		from += int64(len(raw))
		for l := range bytes.Lines(raw) {
			var rec traffic.Record
			require.NoError(t, json.Unmarshal(l, &rec))
			out = append(out, rec)
		}
	}
}

func TestWhatGoesInComesOut(t *testing.T) {
	t.Parallel()
	var want []traffic.Record
	dir := t.TempDir()
	s := open(t, dir, 300)
	starts := map[int64]int{}
	for i, text := range []string{"", "plain", "<&>\u2028\x00\"\\", strings.Repeat("long ", 500), `{"json":true}`} {
		for range 7 {
			at, next, err := s.Append(line(text), line(strconv.Itoa(i)))
			require.NoError(t, err)
			require.Less(t, at, next)
			starts[at] = len(want)
			want = append(want, line(text), line(strconv.Itoa(i)))
		}
	}
	for _, step := range []int{1, 100, 1 << 20} {
		require.Equal(t, want, all(t, s, 0, step))
	}
	for at, i := range starts {
		require.Equal(t, want[i:], all(t, s, at, 64))
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 5)
	require.NoError(t, s.Close())
	require.Equal(t, want, all(t, open(t, dir, 300), 0, 50), "after opening again")
	loaded, err := spool.Load(dir)
	require.NoError(t, err)
	require.Equal(t, want, all(t, loaded, 0, 50), "without a writer")
}

func TestOffsetsThatAreNone(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	_, next, err := s.Append(line("one"), line("two"))
	require.NoError(t, err)
	for _, bad := range []int64{-1, 1, next - 1, next + 1} {
		_, err := s.Reader(bad)
		require.ErrorIs(t, err, runner.ErrOffset, "%d", bad)
	}
	require.Empty(t, all(t, s, next, 10))
}

func TestTornLastRecordIsKeptBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	_, end, err := s.Append(line("whole"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	f, err := os.OpenFile(filepath.Join(dir, "00000000000000000000.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	torn := `{"ts":"2025` + strings.Repeat("x", 200_000)
	_, err = f.WriteString(torn)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	loaded, err := spool.Load(dir)
	require.NoError(t, err)
	require.Len(t, all(t, loaded, 0, 10), 1)

	s = open(t, dir, 1<<20)
	at, _, err := s.Append(line("next"))
	require.NoError(t, err)
	require.Equal(t, end, at)
	require.Equal(t, []traffic.Record{line("whole"), line("next")}, all(t, s, 0, 10))
	kept, err := os.ReadFile(filepath.Join(dir, "torn-"+strconv.FormatInt(end, 10)))
	require.NoError(t, err)
	require.Equal(t, torn, string(kept))
}

func TestTrim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1)
	var at []int64
	for i := range 5 {
		a, _, err := s.Append(line(strconv.Itoa(i)))
		require.NoError(t, err)
		at = append(at, a)
	}
	reader, err := s.Reader(at[0])
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, s.Trim(at[3]+1))
	first, end := s.Bounds()
	require.Equal(t, at[3], first)
	_, err = s.Reader(at[2])
	require.ErrorIs(t, err, runner.ErrTrimmed)
	_, _, err = reader.Next(10)
	require.ErrorIs(t, err, runner.ErrTrimmed, "no silent skip")
	require.ErrorIs(t, s.Trim(end+1), runner.ErrOffset)
	require.NoError(t, s.Trim(end))
	require.Len(t, all(t, s, at[4], 10), 1, "the open segment stays")
	require.NoError(t, s.Close())
	again := open(t, dir, 1)
	first, _ = again.Bounds()
	require.Equal(t, at[4], first)
}

func TestChangesWakeReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	_, sealed, changed := s.Changed()
	require.False(t, sealed)
	_, _, err := s.Append(line("x"))
	require.NoError(t, err)
	<-changed
	_, _, changed = s.Changed()
	s.Seal()
	<-changed
	_, sealed, _ = s.Changed()
	require.True(t, sealed)
	_, _, err = s.Append(line("y"))
	require.ErrorIs(t, err, os.ErrClosed)
}

func BenchmarkAppend(b *testing.B) {
	s, err := spool.Open(b.TempDir(), 16<<20, 0)
	require.NoError(b, err)
	defer s.Close()
	rec := line(strings.Repeat("x", 200))
	for b.Loop() {
		if _, _, err := s.Append(rec); err != nil {
			b.Fatal(err)
		}
	}
}
