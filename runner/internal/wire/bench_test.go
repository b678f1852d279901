package wire

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// The steps of a long line in which the codec takes part.
func BenchmarkLongRecord(b *testing.B) {
	r := traffic.Record{TS: time.Now(), Dir: event.DirOut, Line: strings.Repeat(`{"key":"some words, \"quoted\"","n":123456},`, 64<<20/44)}
	raw := AppendSummed(nil, r)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			AppendSummed(nil, r)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			_, err := DecodeSummed(raw)
			require.NoError(b, err)
		}
	})
	b.Run("send", func(b *testing.B) {
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			AppendRecord(nil, 1, 2, 3, raw)
		}
	})
	line := AppendRecord(nil, 1, 2, 3, raw)
	b.Run("receive", func(b *testing.B) {
		b.SetBytes(int64(len(r.Line)))
		b.ReportAllocs()
		for b.Loop() {
			got, err := ReadLine(bufio.NewReaderSize(bytes.NewReader(line), 64<<10))
			require.NoError(b, err)
			_, err = ParseReply(got)
			require.NoError(b, err)
		}
	})
}
