package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Same demands that both sides are the same conversation, what no transcript of
// the agent's has aside.
func Same(t testing.TB, live, restored reducer.State, rules parity.Rules, what ...any) {
	t.Helper()
	diffs, err := parity.Compare(parity.Native(live), restored, rules)
	require.NoError(t, err)
	require.Empty(t, diffs, what...)
}

// Comparison is the two sides of a recording.
type Comparison struct {
	// Heading begins the line that is logged: what is compared, and how much of
	// it was recorded.
	Heading        string
	Live, Restored reducer.State
	Rules          parity.Rules
	// CountRestored: the line counts what was restored, of agents whose subagents
	// are on that side only. Default: it counts what was said live.
	CountRestored bool
}

// Test demands that both sides are the same conversation as [Same] does, and logs how much was
// compared.
func (c Comparison) Test(t *testing.T) {
	t.Helper()
	diffs, err := parity.Compare(parity.Native(c.Live), c.Restored, c.Rules)
	require.NoError(t, err)
	counted := c.Live
	if c.CountRestored {
		counted = c.Restored
	}
	t.Logf("%s, %d blocks, %d subagents, %d differences", c.Heading, CountBlocks(counted), len(counted.Subagents), len(diffs))
	for _, d := range diffs {
		t.Error(d)
	}
}
