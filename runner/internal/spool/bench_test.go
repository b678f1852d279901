package spool

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// A long line written to the spool and read again.
func BenchmarkLongLine(b *testing.B) {
	r := traffic.Record{TS: time.Now(), Dir: event.DirOut, Line: strings.Repeat(`{"key":"some words, \"quoted\"","n":123456},`, 64<<20/44)}
	b.Run("append", func(b *testing.B) {
		s, err := Open(b.TempDir(), 16<<20, 0)
		require.NoError(b, err)
		defer s.Close()
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			at, _, err := s.Append(r)
			require.NoError(b, err)
			require.NoError(b, s.Trim(at))
		}
	})
	b.Run("read", func(b *testing.B) {
		s, err := Open(b.TempDir(), 16<<20, 0)
		require.NoError(b, err)
		defer s.Close()
		_, _, err = s.Append(r)
		require.NoError(b, err)
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			reader, err := s.Reader(0)
			require.NoError(b, err)
			_, got, err := reader.Next(128 << 10)
			require.NoError(b, err)
			require.Greater(b, len(got), len(r.Line))
			reader.Close()
		}
	})
}
