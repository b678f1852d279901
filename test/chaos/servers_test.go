package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASessionMayBeginWithoutAStream: a deletion counts for the sessions that began before
// the stream was back, and for no later one.
func TestASessionMayBeginWithoutAStream(t *testing.T) {
	at := time.Date(2026, 11, 29, 5, 5, 29, 0, time.UTC)
	d := &driver{deleted: []deletion{{at: at}}}
	began := at.Add(time.Second)
	require.Equal(t, []time.Time{at}, d.deletions(at.Add(-time.Second)), "deleted in the session's life")
	require.Equal(t, []time.Time{at}, d.deletions(began), "not back yet")
	d.deleted[0].back = at.Add(2 * time.Second)
	require.Equal(t, []time.Time{at}, d.deletions(began), "back after the session began")
	require.Empty(t, d.deletions(at.Add(3*time.Second)), "back before")
}
