package nativejson

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestUnquote(t *testing.T) {
	t.Parallel()
	for inside, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		`a\u00e9\n"`:   "",
		`a\u00e9\n`:    "aé\n",
		`\\`:           `\`,
		`ends in \`:    "",
		"a\x13b":       "",
		"\xff":         "",
		`x","y":"z`:    "",
		`\ud83d\ude00`: "😀",
	} {
		text, ok := Unquote(inside)
		require.Equal(t, want, text, inside)
		require.Equal(t, want != "" || inside == "", ok, inside)
	}
}

// It reads what the decoder reads.
func FuzzUnquote(f *testing.F) {
	f.Add("plain")
	f.Add(`a\u00e9\n\"`)
	f.Add("a\x13")
	f.Add("\\\x13")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, inside string) {
		var want string
		valid := json.Unmarshal([]byte(`"`+inside+`"`), &want) == nil && utf8.ValidString(inside)
		text, ok := Unquote(inside)
		require.Equal(t, valid, ok)
		if ok {
			require.Equal(t, want, text)
		}
		require.Equal(t, Plain(inside), ok && text == inside)
	})
}
