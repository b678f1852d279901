package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// However a stream is cut into pieces, the events are the same.
func TestEventsByTheStandard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":                 {"", nil},
		"one":                     {"data: a\n\n", []string{"a"}},
		"one blank is taken off":  {"data:  a\ndata:b\n\n", []string{" a\nb"}},
		"all line ends":           {"data: a\r\n\r\ndata: b\r\rdata: c\n\n", []string{"a", "b", "c"}},
		"mixed line ends":         {"data: a\rdata: b\r\ndata: c\n\r\n", []string{"a\nb\nc"}},
		"byte order mark":         {"\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []string{"a"}},
		"comments, other fields":  {": x\nevent: e\nid: 1\nretry: 5\nnonsense\ndata: a\n\n:\n\n", []string{"a"}},
		"field without a colon":   {"data\n\ndata\ndata\n\n", []string{"", "\n"}},
		"no data is no event":     {"event: e\n\nid: 1\n\n", nil},
		"colons in data":          {"data: {\"a\":\"b: c\"}\n\n", []string{`{"a":"b: c"}`}},
		"what is cut short":       {"data: a\n\ndata: b\n", []string{"a"}},
		"empty lines in between":  {"\n\n\ndata: a\n\n\n\n", []string{"a"}},
		"a field that only looks": {"Data: a\n data: b\ndata : c\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= len(c.stream)+1; size++ {
				var s sse
				var got []string
				for rest := []byte(c.stream); len(rest) > 0; {
					n := min(size, len(rest))
					got = append(got, texts(s.cut(rest[:n]))...)
					rest = rest[n:]
				}
				require.Equalf(t, c.want, got, "pieces of %d", size)
			}
		})
	}
}

func TestDataBecomesOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                "plain",
		`{"a": 1}`:             `{"a": 1}`,
		"{\"a\":\n [1,\n2]}":   `{"a":[1,2]}`,
		"{\"a\": \"x\ny\"}":    `{"type":"sojourn.text","text":"{\"a\": \"x\ny\"}"}`,
		"two\nlines <&> \x01é": `{"type":"sojourn.text","text":"two\nlines <&> \u0001é"}`,
		"\n":                   `{"type":"sojourn.text","text":"\n"}`,
	} {
		require.Equal(t, strings.ReplaceAll(want, "\n", `\n`), oneLine(in))
	}
}

func TestLinesOfAnyPieces(t *testing.T) {
	t.Parallel()
	const text = "one\n\ntwo words\r\n" + "long long long\n" + "torn"
	for size := 1; size <= len(text); size++ {
		var s splitter
		var got []string
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			got = append(got, texts(s.cut(rest[:n]))...)
			rest = rest[n:]
		}
		require.Equal(t, []string{"one", "", "two words\r", "long long long", "torn"}, append(got, texts(s.rest())...))
		require.Empty(t, s.rest())
	}
}

// FuzzEvents: pieces make no difference, and no event's line has a line end.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\r\n\r\ndata: b\r\rdata: c\n\n", 3)
	f.Add("\uFEFFdata: {\ndata: }\n\n", 1)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		var whole, cut sse
		want := whole.cut([]byte(stream))
		var got []line
		for rest := []byte(stream); len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			got = append(got, cut.cut(rest[:n])...)
			rest = rest[n:]
		}
		require.Equal(t, want, got)
		for _, data := range got {
			require.NotContains(t, oneLine(data.text), "\n")
		}
	})
}

func texts(lines []line) (out []string) {
	for _, l := range lines {
		out = append(out, l.text)
	}
	return out
}
