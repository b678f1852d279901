package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// FuzzRecord compares the codec with encoding/json: both read the same record
// from what it writes.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\x7f\t\r\n\b\f", "\u2028<&>é😀", "\xff\xfe", `","line":"`, `{"ts":"`, `"}`} {
		f.Add(s, int64(1_700_000_000_123_456_789))
	}
	f.Fuzz(func(t *testing.T, line string, ns int64) {
		in := traffic.Record{TS: time.Unix(0, ns).UTC(), Dir: event.DirOut, Line: line}
		raw := wire.AppendJSON(nil, in)
		require.NotContains(t, string(raw), "\n")
		var slow traffic.Record
		require.NoError(t, json.Unmarshal(raw, &slow), "%s", raw)
		fast, err := wire.DecodeSummed(raw)
		require.NoError(t, err, "as runners wrote it before there were checksums")
		require.Equal(t, slow, fast)
		in.Line = strings.ToValidUTF8(line, "\uFFFD")
		require.Equal(t, in, fast)

		summed := wire.AppendSummed([]byte("before"), in)[len("before"):]
		require.NotContains(t, string(summed), "\n")
		slow = traffic.Record{}
		require.NoError(t, json.Unmarshal(summed, &slow), "%s", summed)
		require.Equal(t, in, slow)
		fast, err = wire.DecodeSummed(summed)
		require.NoError(t, err)
		require.Equal(t, in, fast)
	})
}

// FuzzDecodeSummed compares the reader with encoding/json on any bytes: what it
// accepts is what json reads.
func FuzzDecodeSummed(f *testing.F) {
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05Z","dir":"out","line":"a\u001fb\"\\"}`))
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05Z","dir":"out","line":"\u00e9\/"}`))
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05+01:00","dir":"in","line":"x","line":"y"}`))
	f.Add([]byte(`{"ts":"0000-01-01T00:00:00+01:00","dir":"in","line":""}`))
	f.Add([]byte(`{"dir":"err","line":"","ts":null}`))
	f.Add(wire.AppendSummed(nil, traffic.Record{TS: time.Unix(1, 2), Dir: event.DirErr, Line: `,"crc":"`}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		fast, err := wire.DecodeSummed(raw)
		if err != nil {
			require.ErrorIs(t, err, wire.ErrDamaged)
			return
		}
		var slow traffic.Record
		require.NoError(t, json.Unmarshal(raw, &slow), "%s", raw)
		require.True(t, slow.TS.Equal(fast.TS))
		require.Equal(t, slow.Dir, fast.Dir)
		require.Equal(t, slow.Line, fast.Line)
	})
}

// A change of any single byte of a record is detected.
func TestDamageOfEveryByte(t *testing.T) {
	t.Parallel()
	raw := wire.AppendSummed(nil, traffic.Record{TS: time.Unix(1, 2), Dir: event.DirOut, Line: `{"type":"text","text":"a \"word\""}`})
	for at := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[at] ^= 1 << bit
			_, err := wire.DecodeSummed(bad)
			require.ErrorIs(t, err, wire.ErrDamaged, "byte %d, bit %d: %s", at, bit, bad)
		}
		_, err := wire.DecodeSummed(raw[:at])
		require.ErrorIs(t, err, wire.ErrDamaged, "cut at %d", at)
	}
}

func BenchmarkRecord(b *testing.B) {
	in := traffic.Record{TS: time.Now().UTC(), Dir: event.DirOut, Line: `{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Running "}}}`}
	raw := wire.AppendSummed(nil, in)
	b.Run("encode", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			buf = wire.AppendSummed(buf[:0], in)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := wire.DecodeSummed(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
