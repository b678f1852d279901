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
