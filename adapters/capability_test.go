package adapters_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// Every field of Capabilities is described once, and an ability reads its own
// field and no other.
func TestAllCapabilitiesAreTheFields(t *testing.T) {
	t.Parallel()
	all := adapters.AllCapabilities()
	fields := reflect.TypeFor[adapters.Capabilities]()
	require.Len(t, all, fields.NumField())
	for i, ability := range all {
		require.Equal(t, fields.Field(i).Tag.Get("json"), ability.Key)
		require.Equal(t, strings.ToLower(ability.Name), ability.Name)
		require.Equal(t, strings.ToLower(ability.Key), strings.ReplaceAll(ability.Name, " ", ""), "the key is the name in one word")
		require.Regexp(t, `^[A-Z].*\.$`, ability.Meaning)

		only := reflect.New(fields)
		only.Elem().Field(i).SetBool(true)
		can, cannot := only.Elem().Interface().(adapters.Capabilities).Split()
		require.Equal(t, []string{ability.Name}, can)
		require.Len(t, cannot, len(all)-1)
		require.NotContains(t, cannot, ability.Name)
	}
}
