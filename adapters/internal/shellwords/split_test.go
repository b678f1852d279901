package shellwords

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                           nil,
		" \t\n":                      nil,
		"a  b\tc\n":                  {"a", "b", "c"},
		`'a b' "c d"`:                {"a b", "c d"},
		`a''b ""`:                    {"ab", ""},
		`'a\b"c' "a'b"`:              {`a\b"c`, "a'b"},
		`a\ b \'c \\`:                {"a b", "'c", `\`},
		"\"\\\"\\\\\\$\\`\" \"\\n\"": {"\"\\$`", `\n`},
		`trailing\`:                  {`trailing\`},
	} {
		words, closed := Split(line)
		require.Equal(t, want, words, "%q", line)
		require.True(t, closed, "%q", line)
	}
	for _, line := range []string{`'a`, `a "b`, `"a\"`} {
		_, closed := Split(line)
		require.False(t, closed, "%q", line)
	}
}
