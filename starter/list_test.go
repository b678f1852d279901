package starter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

func TestStatusInAList(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]session.Summary{
		"running": {Status: session.StatusRunning, Outcome: session.Failed},
		"running (waiting for a free slot on a host)": {Status: session.StatusRunning, WaitsFor: "waiting for a free slot on a host"},
		"waiting (parked, child)":                     {Status: session.StatusWaiting, Parked: true, Parent: "s0"},
		"paused (the limit of 3 turns is reached)":    {Status: session.StatusPaused, WaitsFor: "the limit of 3 turns is reached"},
		"idle (failed)":                               {Status: session.StatusIdle, Outcome: session.Failed},
		"-":                                           {},
	} {
		require.Equal(t, want, status(s))
	}
}
