package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Same checks that both sides are the same conversation, except for blocks that no
// transcript of the agent has.
func Same(t testing.TB, live, restored reducer.State, rules parity.Rules, what ...any) {
	t.Helper()
	diffs, err := parity.Compare(parity.Native(live), restored, rules)
	require.NoError(t, err)
	require.Empty(t, diffs, what...)
}

// Comparison is the two sides of a recording.
type Comparison struct {
	// Heading starts the logged line: what is compared, and how much was recorded.
	Heading        string
	Live, Restored reducer.State
	Rules          parity.Rules
	// CountRestored: the line counts the restored blocks, for agents whose subagents
	// are on that side only. Default: it counts the live ones.
	CountRestored bool
}

// Test checks both sides as [Same] does, and logs how much was compared.
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
