package jsonl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event/traffic"
)

// cutIn feeds a line to a cutter in pieces of a size.
func cutIn(c *LineCutter, line string, size int) (string, *traffic.Cut) {
	for len(line) > 0 {
		n := min(size, len(line))
		_, _ = c.Write([]byte(line[:n]))
		line = line[n:]
	}
	kept, cut := c.Take()
	return string(kept), cut
}

func sumOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestShortLinesAreKept(t *testing.T) {
	t.Parallel()
	c := LineCutter{Max: 10}
	for _, line := range []string{"", "a", "0123456789", `{"a":"bc"}`} {
		kept, cut := cutIn(&c, line, 3)
		require.Equal(t, line, kept)
		require.Nil(t, cut)
	}
}

// A line over the limit has its whole length and hash; JSON keeps its form, and
// a string that was shortened has its own.
func TestLongLinesAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("wörter \U0001F600 ", 2000)
	encoded, err := json.Marshal(long)
	require.NoError(t, err)
	inside := string(encoded[1 : len(encoded)-1])
	line := fmt.Sprintf(`{"id":"m1","n":[1,{"text":%s}],"quote\"":"\\","last":"x"}`, encoded)
	const limit = 4096
	for size := range []int{1, 7, 1000, 1 << 20} {
		kept, cut := cutIn(&LineCutter{Max: limit}, line, max(size, 1))
		require.Equal(t, &traffic.Cut{Bytes: int64(len(line)), SHA256: sumOf(line)}, cut)
		require.LessOrEqual(t, len(kept), limit)
		var got struct {
			ID   string
			N    []any
			Last string
		}
		require.NoError(t, json.Unmarshal([]byte(kept), &got))
		require.Equal(t, []string{"m1", "x"}, []string{got.ID, got.Last})
		text := got.N[1].(map[string]any)["text"].(string)
		head, note, found := strings.Cut(text, "… [")
		require.True(t, found)
		require.True(t, strings.HasPrefix(long, head))
		require.GreaterOrEqual(t, len(head), limit/shareOfLine)
		require.Equal(t, traffic.Cut{Bytes: int64(len(inside)), SHA256: sumOf(inside)}.String()+"]", note)
	}
}

// Of a line that has no form to keep, or too much of it, the beginning is kept.
func TestTheBeginningIsKept(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"no JSON":             strings.Repeat("ä", 5000),
		"many strings":        "[" + strings.Repeat(`"0123456789",`, 1000) + "1]",
		"a string of quotes":  `{"a":"` + strings.Repeat(`\"`, 10) + strings.Repeat("\x80", 9000) + `"}`,
		"an open string":      `{"a":"` + strings.Repeat("x", 9000),
		"escapes and nothing": `["` + strings.Repeat(`\u00e4`, 3000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, cut := cutIn(&LineCutter{Max: 4096}, line, len(line))
			require.Equal(t, sumOf(line), cut.SHA256)
			require.LessOrEqual(t, len(whole), 4096)
			require.True(t, strings.HasPrefix(line, whole))
			if utf8.ValidString(line) {
				require.True(t, utf8.ValidString(whole))
			}
			pieces, _ := cutIn(&LineCutter{Max: 4096}, line, 13)
			require.Equal(t, whole, pieces, "pieces make no difference")
		})
	}
}

func FuzzLineCutter(f *testing.F) {
	f.Add(`{"a":"bcdefghijklmnopqrstuvwxyz\u1234","b":[1,"\\"]}`, 3)
	f.Fuzz(func(t *testing.T, line string, size int) {
		whole, cut := cutIn(&LineCutter{Max: 40}, line, max(1, len(line)))
		pieces, again := cutIn(&LineCutter{Max: 40}, line, max(1, size))
		require.Equal(t, whole, pieces)
		require.Equal(t, cut, again)
		if cut == nil {
			require.Equal(t, line, whole)
			return
		}
		require.LessOrEqual(t, len(whole), 40)
	})
}

// BenchmarkLineCutter cuts a line of 64 MB whose text has many escapes.
func BenchmarkLineCutter(b *testing.B) {
	line := []byte(`{"text":"` + strings.Repeat(strings.Repeat("0123456789", 6)+`\n`, 64<<20/62) + `"}`)
	for name, size := range map[string]int{"pieces": 64 << 10, "whole": len(line)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				var c LineCutter
				for at := 0; at < len(line); at += size {
					_, _ = c.Write(line[at:min(at+size, len(line))])
				}
				if _, cut := c.Take(); cut == nil {
					b.Fatal("the line was not cut")
				}
			}
		})
	}
}
