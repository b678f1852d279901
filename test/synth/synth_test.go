package synth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/synth"
)

// The mix is the one in the package comment.
func TestMix(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n, err := synth.Write(&out, 2<<20)
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), n)
	require.InDelta(t, 2<<20, n, 1<<17)
	lines, results, longest := 0, 0, 0
	seen := map[string]bool{}
	for l := range bytes.Lines(out.Bytes()) {
		var o struct {
			UUID   string
			Result json.RawMessage `json:"toolUseResult"`
		}
		require.NoError(t, json.Unmarshal(l, &o))
		require.False(t, o.UUID != "" && seen[o.UUID], o.UUID)
		seen[o.UUID] = true
		lines++
		longest = max(longest, len(l))
		if o.Result != nil {
			results += len(l)
		}
	}
	require.InDelta(t, 2450, out.Len()/lines, 150)
	require.InDelta(t, 64, results*100/out.Len(), 6)
	require.InDelta(t, 24_500, longest, 3000)
	var again bytes.Buffer
	_, err = synth.Write(&again, 2<<20)
	require.NoError(t, err)
	require.True(t, bytes.Equal(out.Bytes(), again.Bytes()))
}

func TestRecords(t *testing.T) {
	t.Parallel()
	records := synth.Records(20)
	size := 0
	for _, r := range records {
		require.True(t, json.Valid([]byte(r.Line)), r.Line)
		size += len(r.Line)
	}
	require.Equal(t, 20*147, len(records))
	require.InDelta(t, 335, size/len(records), 40)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteFails(t *testing.T) {
	t.Parallel()
	_, err := synth.Write(full{}, 1<<20)
	require.ErrorContains(t, err, "disk full")
}
