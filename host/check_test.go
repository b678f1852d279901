package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A sandbox in which checks run is not evicted, until the last of them has ended.
func TestASandboxIsCheckedTwice(t *testing.T) {
	t.Parallel()
	h := New(Options{DataDir: t.TempDir(), Slots: NewSlots(1, "a"), Log: quiet()})
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	first, again := h.BeginCheck("a"), h.BeginCheck("a")
	first()
	require.True(t, h.isChecked("a"))
	require.False(t, h.Slots.TryReserve())
	again()
	require.False(t, h.isChecked("a"))
	require.True(t, h.Slots.TryReserve())
}
