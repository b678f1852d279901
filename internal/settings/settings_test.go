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

// Requests to a Temporal on this machine are not compressed; to one elsewhere they are
// as its client's default says.
func TestTemporalOnThisMachine(t *testing.T) {
	t.Parallel()
	for address, here := range map[string]bool{
		"": true, "localhost:7233": true, "127.0.0.1:7233": true, "127.4.5.6:1": true, "[::1]:7233": true,
		"10.0.0.1:7233": false, "temporal:7233": false, "localhost.example.com:7233": false, "127.0.0.1": false,
	} {
		s, err := Open("", func(name string) string {
			if name == "TEMPORAL_ADDRESS" {
				return address
			}
			return ""
		})
		require.NoError(t, err)
		o, err := s.Temporal()
		require.NoError(t, err)
		require.Equal(t, here, o.ConnectionOptions.GrpcCompression != nil, address)
	}
}
