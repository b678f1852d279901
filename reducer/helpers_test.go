package reducer

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func encode(t testing.TB, s State) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

// canonical is JSON with its keys in one order, to compare across types.
func canonical(t testing.TB, data string) string {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(data), &v))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func reduceAll(s State, events []event.Event) State {
	for _, e := range events {
		s = Reduce(s, e)
	}
	return s
}

func buildAll(events []event.Event) State {
	var b Builder
	for _, e := range events {
		b.Add(e)
	}
	return b.State()
}
