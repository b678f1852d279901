package jsonl

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutRow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*DefaultMaxLine)
	row := []any{nil, int64(1), 2.5, "short", `{"id":"a","text":"` + long + `"}`, long, []byte(long)}
	was := slices.Clone(row)
	CutRow(row)
	require.Equal(t, was[:4], row[:4])
	require.Regexp(t, `^\{"id":"a","text":"x+… \[cut: 8388608 bytes, sha256 [0-9a-f]{64}\]"\}$`, row[4])
	line, _ := CutLine([]byte(was[4].(string)))
	require.Equal(t, string(line), row[4], "as a line is cut")
	require.Regexp(t, `^x+… \[cut: 8388608 bytes, sha256 [0-9a-f]{64}\]$`, row[5])
	require.Regexp(t, `^x+… \[cut: 8388608 bytes, sha256 [0-9a-f]{64}\]$`, string(row[6].([]byte)))
	again := slices.Clone(row)
	CutRow(again)
	require.Equal(t, row, again)

	many := make([]any, 1000)
	for i := range many {
		many[i] = strings.Repeat("x", 1<<20)
	}
	CutRow(many)
	total := 0
	for _, v := range many {
		total += len(v.(string))
	}
	require.Less(t, total, MaxRow+1<<20)
	require.Equal(t, strings.Repeat("x", 1<<20), many[0])
}
