package traffic

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	lines := []string{
		"", "plain", `{"a":"b\\n"}`, "tab\tquote\"back\\slash", "\x00\x01\x1f\x7f", "naïve 漢字 🙂",
		"broken \xff\xfe utf-8", "\xed\xa0\x80 surrogate", "a\u2028b\u2029c", "<&>", "\ufffd alone is valid",
		strings.Repeat("x", 1<<16) + "\xff",
	}
	for _, line := range lines {
		want := Record{TS: at(1_700_000_000_123), Dir: event.DirOut, Line: line}
		data, err := json.Marshal(want)
		require.NoError(t, err)
		require.True(t, json.Valid(Append(nil, want)))
		require.NotContains(t, string(Append(nil, want)), "\n", "a record is one line")
		var got, direct Record
		require.NoError(t, json.Unmarshal(data, &got))
		require.NoError(t, json.Unmarshal(Append(nil, want), &direct))
		require.Equal(t, want, got)
		require.Equal(t, want, direct)
	}
}

// Any bytes survive: the runner spools what the agent wrote, not what it should
// have written.
func TestRecordIsLossless(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		raw := make([]byte, rng.IntN(40))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		want := Record{TS: at(rng.Int64N(1 << 40)), Dir: event.DirErr, Line: string(raw)}
		var got Record
		require.NoError(t, json.Unmarshal(Append(nil, want), &got))
		require.Equal(t, want, got)
	}
}

func TestRecordRawOnlyWhenNeeded(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"ts":"1970-01-01T00:00:00.001Z","dir":"in","line":"né"}`,
		string(Append(nil, Record{TS: at(1), Dir: event.DirIn, Line: "né"})))
	require.Equal(t, "{\"dir\":\"in\",\"line\":\"\ufffd\",\"raw\":\"/w==\"}",
		string(Append(nil, Record{Dir: event.DirIn, Line: "\xff"})))
}

func TestRecordStamps(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Time{
		`{"ts":"2026-01-02T03:04:05.678+01:00","dir":"out","line":"x"}`: time.Date(2026, 1, 2, 2, 4, 5, 678e6, time.UTC),
		`{"ts":1700000000123,"dir":"out","line":"x"}`:                   at(1_700_000_000_123),
		`{"ms":12.5,"dir":"out","line":"x"}`:                            time.UnixMicro(12500).UTC(),
		`{"dir":"out","line":"x"}`:                                      {},
		`{"ts":null,"dir":"out","line":"x"}`:                            {},
	} {
		var r Record
		require.NoError(t, json.Unmarshal([]byte(in), &r), in)
		require.True(t, want.Equal(r.TS), "%s gave %v", in, r.TS)
	}
}

func TestRecordRefusals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"dir":"out"}`:          `"line" is missing`,
		`null`:                   `"line" is missing`,
		`{"dir":"up","line":""}`: `"dir" is "up"`,
		`{"line":""}`:            `"dir" is ""`,
		`{"ts":"yesterday","dir":"out","line":""}`:      `"ts"`,
		`{"ts":{},"dir":"out","line":""}`:               `"ts"`,
		`{"ts":1e300,"dir":"out","line":""}`:            `out of range`,
		`{"ms":-1e300,"dir":"out","line":""}`:           `out of range`,
		`{"dir":"out","line":"","raw":"not base64 !!"}`: `record`,
		`{"dir":"out","line":7}`:                        `record`,
		`[]`:                                            `record`,
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(in), new(Record)), want, in)
	}
	_, err := json.Marshal(Record{Line: "x"})
	require.ErrorContains(t, err, `"dir" is ""`)
}

func TestRecordStampWithoutText(t *testing.T) {
	t.Parallel()
	far := Record{TS: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), Dir: event.DirSig, Line: "start"}
	require.Equal(t, `{"dir":"sig","line":"start"}`, string(Append(nil, far)))
}

func TestCutRecordsKeepTheirCut(t *testing.T) {
	t.Parallel()
	r := Record{Dir: event.DirOut, Line: `x","cut":{"bytes":1}`, Cut: &Cut{Bytes: 9, SHA256: "ab"}}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back Record
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, r, back)
}

func BenchmarkAppend(b *testing.B) {
	r, buf := Record{TS: at(1_700_000_000_001), Dir: event.DirOut, Line: strings.Repeat(`{"type":"delta"},`, 20)}, []byte(nil)
	b.SetBytes(int64(len(r.Line)))
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], r)
	}
}
