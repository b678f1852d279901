package builtin_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

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
