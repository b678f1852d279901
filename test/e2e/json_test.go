package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutKeys returns a value as JSON without the named keys, at every depth.
func withoutKeys(t *testing.T, v any, keys ...string) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(data, &tree))
	data, err = json.Marshal(prune(tree, keys))
	require.NoError(t, err)
	return string(data)
}

func prune(v any, keys []string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if slices.Contains(keys, k) {
				delete(v, k)
				continue
			}
			v[k] = prune(v[k], keys)
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i], keys)
		}
	}
	return v
}
