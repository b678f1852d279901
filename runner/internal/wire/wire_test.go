package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{}`, `{"line":"}"}`, `{"a":{"b":"\"rec\":"}}`} {
		line := wire.AppendRecord(nil, 7, 0, 1<<40, []byte(raw))
		fast, err := wire.ParseReply(line)
		require.NoError(t, err)
		var slow wire.Reply
		require.NoError(t, json.Unmarshal(line, &slow))
		require.Equal(t, slow, fast)
		require.Equal(t, raw, string(fast.Rec))
	}
}

// The fast path must agree with the general one on whatever it accepts.
func FuzzParseReply(f *testing.F) {
	f.Add([]byte(`{"id":1,"at":2,"next":3,"rec":{"x":1}}`))
	f.Add([]byte(`{"id":1,"error":{"code":"epoch","message":"m"}}`))
	f.Add([]byte(`{"id":1,"at":99999999999999999999,"next":3,"rec":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := wire.ParseReply(line)
		var want wire.Reply
		if json.Unmarshal(line, &want) == nil && err == nil {
			require.Equal(t, want.ID, got.ID)
			require.Equal(t, want.At, got.At)
			require.Equal(t, want.Next, got.Next)
		}
	})
}
