package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// beatsOf parses lines in the format of a beat file.
func beatsOf(t *testing.T, lines ...string) []Beat {
	t.Helper()
	all, err := ReadBeats(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	require.NoError(t, err)
	require.Len(t, all, len(lines))
	return all
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines    []string
		overlaps int
		longest  time.Duration
	}{
		"one epoch":                   {[]string{"s 1 start 7 100", "s 1 beat 7 110", "s 1 end 7 120"}, 0, 0},
		"one after the other":         {[]string{"s 1 start 7 100", "s 1 beat 7 110", "s 2 start 9 150", "s 2 end 9 160"}, 0, 40},
		"the old one wakes":           {[]string{"s 1 start 7 100", "s 2 start 9 150", "s 1 beat 7 155", "s 2 end 9 160"}, 1, -5},
		"behind the new one's end":    {[]string{"s 1 start 7 100", "s 2 start 9 150", "s 2 end 9 160", "s 1 beat 7 200"}, 1, -50},
		"an old time, written late":   {[]string{"s 1 start 7 100", "s 2 start 9 150", "s 1 beat 7 110"}, 1, 40},
		"a second process of the old": {[]string{"s 1 start 7 100", "s 1 start 8 105", "s 2 start 9 150", "s 1 end 8 151"}, 1, -1},
		"the same moment":             {[]string{"s 1 start 7 100", "s 2 start 9 100"}, 1, 0},
		"the third and the first":     {[]string{"s 1 start 7 100", "s 2 start 8 200", "s 3 start 9 300", "s 1 beat 7 310"}, 2, 100},
		"two sessions at once":        {[]string{"s 1 start 7 100", "r 2 start 8 100", "s 1 end 7 110", "r 2 end 8 110"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Judge(beatsOf(t, c.lines...))
			require.Len(t, v.Overlaps, c.overlaps, "%v", v.Overlaps)
			require.Equal(t, max(c.longest, 0), v.Longest)
		})
	}
}

func TestReadBeatsRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	_, err := ReadBeats(strings.NewReader("s 1 start 7 100\nnonsense\n"))
	require.ErrorContains(t, err, "line 2")
	all, err := ReadBeats(strings.NewReader("s 1 start 7 100\ns 1 be"))
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestWriteBeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "beats")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.WriteFile(path+".end", nil, 0o600))
	t.Setenv("SOJOURN_SANDBOX", "/data/sandboxes/a-b-e12")
	require.NoError(t, WriteBeats(path))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all, err := ReadBeats(f)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "start", all[0].Kind)
	require.Equal(t, "end", all[1].Kind)
	require.Equal(t, "a-b", all[1].Session)
	require.EqualValues(t, 12, all[1].Epoch)
	require.Greater(t, all[1].At, all[0].At)

	t.Setenv("SOJOURN_SANDBOX", "/data/sandboxes/none")
	require.Error(t, WriteBeats(path))
}
