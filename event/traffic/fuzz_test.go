package traffic

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// FuzzDecodeRecord: a record that decodes is the same after it was spooled, and
// any bytes can be spooled as a line.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"ts":"2026-01-02T03:04:05.678Z","dir":"out","line":"{\"a\":1}"}`))
	f.Add([]byte(`{"ms":12.5,"dir":"in","line":"x"}`))
	f.Add([]byte(`{"ts":1700000000123,"dir":"sig","line":"exit 0"}`))
	f.Add([]byte(`{"dir":"err","line":"?","raw":"/w=="}`))
	f.Add([]byte(`{"ts":"0000-01-01T00:00:00+23:59","dir":"sig","line":""}`))
	f.Add([]byte(`{"ts":"9999-12-31T23:59:59.999999999-23:59","dir":"sig","line":""}`))
	f.Add([]byte("\xff plain \x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		requireSpooled(t, Record{Dir: event.DirOut, Line: string(data)})
		var r Record
		if json.Unmarshal(data, &r) == nil {
			requireSpooled(t, r)
		}
	})
}

func requireSpooled(t *testing.T, r Record) {
	t.Helper()
	var back Record
	require.NoError(t, json.Unmarshal(Append(nil, r), &back))
	require.Equal(t, r.Dir, back.Dir)
	require.Equal(t, r.Line, back.Line)
	require.True(t, r.TS.Equal(back.TS), "%v is %v", r.TS, back.TS)
}
