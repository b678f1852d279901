package builtin_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := builtin.Registry()
	require.Contains(t, r.Names(), "claude")
	for _, name := range r.Names() {
		a, err := r.Get(name)
		require.NoError(t, err)
		info := a.Info()
		require.Equal(t, name, info.Name)
		require.Regexp(t, regexp.MustCompile(`^[a-z]+$`), name, "names are typed by people")
		require.NotEmpty(t, info.Product)
		require.NotEmpty(t, info.Architecture)
	}
}

// A process that runs everything is started anew before it asks, unless its command is the same.
func TestMustRestartToAsk(t *testing.T) {
	t.Parallel()
	r := builtin.Registry()
	for _, name := range r.Names() {
		a, err := r.Get(name)
		require.NoError(t, err)
		l := adapters.Launch{Program: "/opt/agent", Runner: "/opt/runner", Home: "/home/box", Workspace: "/work", SessionID: "s1", NativeID: "n1"}
		for _, p := range []adapters.Permission{"", adapters.PermissionAllow} {
			l.Permission = p
			require.Equal(t, name != "acp", adapters.MustRestartToAsk(a, l), name)
		}
		for _, p := range []adapters.Permission{adapters.PermissionAsk, adapters.PermissionDeny} {
			l.Permission = p
			require.False(t, adapters.MustRestartToAsk(a, l), name)
		}
	}
}
