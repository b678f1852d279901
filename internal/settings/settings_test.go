package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadEnvFile(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`A='it'\''s'`:                    "it's",
		`A="say \"hi\" \\ \$HOME \n"`:    `say "hi" \ $HOME \n`,
		`A=plain`:                        "plain",
		`A=a\ b`:                         "a b",
		`export A='x'`:                   "x",
		`A=`:                             "",
		`A=''`:                           "",
		`A='#no comment' # comment`:      "#no comment",
		`  A=http://127.0.0.1:1/x?y=z  `: "http://127.0.0.1:1/x?y=z",
	} {
		vars, err := read(strings.NewReader("\n# comment\n"+line+"\n"), "f")
		require.NoError(t, err, line)
		require.Equal(t, map[string]string{"A": want}, vars, line)
	}
	for _, line := range []string{`A=$HOME`, "A=`id`", `A="$(id)"`, `A='open`, `A="open`, `A=a b`, `A=a;b`, `A\`, `no assignment`, `1A=x`, `A=x\`} {
		_, err := read(strings.NewReader(line), "f")
		require.ErrorContains(t, err, "f:1: not an assignment", line)
	}
}
