package starter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/starter/internal/render"
)

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "now", 0: "now", 999 * time.Millisecond: "now", time.Second: "1s ago", 59 * time.Second: "59s ago",
		time.Minute: "1m ago", 59 * time.Minute: "59m ago", 25 * time.Hour: "1d ago", 23 * time.Hour: "23h ago",
	} {
		require.Equal(t, want, ago(d))
	}
}

func TestMetadataValues(t *testing.T) {
	t.Parallel()
	values, err := metadata([]string{"a=1", "b=two", `c={"d":[true]}`, "e=", "f=x=y", "g=null"})
	require.NoError(t, err)
	got := map[string]string{}
	for k, v := range values {
		got[k] = string(v)
	}
	require.Equal(t, map[string]string{"a": "1", "b": `"two"`, "c": `{"d":[true]}`, "e": `""`, "f": `"x=y"`, "g": "null"}, got)
}

func TestImageTypeIsByContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.txt": "\x89PNG\r\n\x1a\n", "b": "\xff\xd8\xff\xe0", "c.png": "GIF89a", "d": "RIFF\x00\x00\x00\x00WEBPVP8 ",
	} {
		writeFile(t, dir+"/"+name, content)
		part, err := imagePart(dir + "/" + name)
		require.NoError(t, err, name)
		require.Equal(t, "image", part.Type)
		require.Contains(t, imageTypes, part.MediaType)
		require.NotEmpty(t, part.Data)
	}
	writeFile(t, dir+"/e.png", "no image")
	_, err := imagePart(dir + "/e.png")
	require.ErrorContains(t, err, "e.png is text/plain")
}

// An agent's text can't control the terminal: not in an answer, and not in an
// error that quotes it.
func TestAgentsWordsAreSafeForTheTerminal(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"a\x1b]0;pwn\x07b", "a\x1b[2Jb", "a\rb\x00", "a\u009b31mb"} {
		require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]", render.Clean(said))
		require.NotRegexp(t, "[\x00-\x1f\x7f\u0080-\u009f]", oneLine(said))
	}
	require.Equal(t, "two\nlines\tstay", render.Clean("two\nlines\tstay"))
}
