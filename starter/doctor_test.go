package starter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

// What hosts could not remove is named with its host, separately from how they
// isolate agents.
func TestDoctorNamesLeftovers(t *testing.T) {
	t.Parallel()
	hosts := []session.HostReport{{Host: "a"}, {Host: "b", Leftovers: []string{"not removed yet: remove /data/.gone-x: busy"}}}
	_, err := leftovers(hosts)
	require.ErrorContains(t, err, "host b: not removed yet: remove /data/.gone-x: busy")
	detail, err := confinement(hosts)
	require.NoError(t, err)
	require.Equal(t, "agents are shut in on 2 of 2 hosts that were asked", detail)
	detail, err = leftovers(hosts[:1])
	require.NoError(t, err)
	require.Equal(t, "nothing of ended sandboxes is left", detail)
}

// The late tasks of a fair server are in the first half, however many partitions its queues have.
func TestFair(t *testing.T) {
	t.Parallel()
	order := func(s string) (keys []string) {
		for _, c := range s {
			keys = append(keys, map[rune]string{'c': crowdKey, 'l': lateKey}[c])
		}
		return keys
	}
	for s, want := range map[string]bool{
		"clclclclclclcccccccccccccccccc": true, "ccccclcccclclllccccccccccccccc": true,
		"ccccccccccccccccccccccccllllll": false, "cccccccccccclcccccccclccclclll": false, "": false,
	} {
		require.Equal(t, want, fair(order(s)), s)
	}
}
