package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// FuzzRecord holds the codec against encoding/json: what it writes, json reads
// as the same record, and so does it.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\x7f\t\r\n\b\f", "\u2028<&>é😀", "\xff\xfe", `","line":"`, `{"ts":"`, `"}`} {
		f.Add(s, int64(1_700_000_000_123_456_789))
	}
	f.Fuzz(func(t *testing.T, line string, ns int64) {
		in := event.Record{TS: time.Unix(0, ns).UTC(), Dir: event.DirOut, Line: line}
		raw := wire.AppendJSON(nil, in)
		require.NotContains(t, string(raw), "\n")
		var slow event.Record
		require.NoError(t, json.Unmarshal(raw, &slow), "%s", raw)
		fast, err := wire.DecodeRecord(raw)
		require.NoError(t, err)
		require.Equal(t, slow, fast)
		in.Line = strings.ToValidUTF8(line, "\uFFFD")
		require.Equal(t, in, fast)
	})
}

// FuzzDecodeRecord holds the reader against encoding/json on any bytes.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05Z","dir":"out","line":"a\u001fb\"\\"}`))
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05Z","dir":"out","line":"\u00e9\/"}`))
	f.Add([]byte(`{"ts":"2025-01-02T03:04:05+01:00","dir":"in","line":"x","line":"y"}`))
	f.Add([]byte(`{"dir":"err","line":"","ts":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var slow event.Record
		slowErr := json.Unmarshal(raw, &slow)
		fast, err := wire.DecodeRecord(raw)
		require.Equal(t, slowErr == nil, err == nil, "%s", raw)
		if err == nil {
			require.True(t, slow.TS.Equal(fast.TS))
			require.Equal(t, slow.Dir, fast.Dir)
			require.Equal(t, slow.Line, fast.Line)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	in := event.Record{TS: time.Now().UTC(), Dir: event.DirOut, Line: `{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Running "}}}`}
	raw := wire.AppendJSON(nil, in)
	b.Run("encode", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			buf = wire.AppendJSON(buf[:0], in)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := wire.DecodeRecord(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
