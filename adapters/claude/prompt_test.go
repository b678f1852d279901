package claude

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

func TestPromptsThatLeaveTheSessionAreRefused(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"/clear": true, " /clear\n": true, "/reset now": true, "/new": true,
		"clear the table": false, "say /clear": false, "/clearance": false, "/compact": false,
	} {
		line, err := encode(adapters.Launch{}, "p", adapters.Prompt{MessageID: "m1", Text: text})
		if refused {
			require.ErrorIs(t, err, adapters.ErrUnsupported, text)
			require.ErrorContains(t, err, "make a new session instead")
			continue
		}
		require.NoError(t, err, text)
		require.NotEmpty(t, line)
	}
}
