package starter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowTimer is a context whose deadline is past, and whose timer ends it only now.
type slowTimer struct{ context.Context }

func (slowTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// A request that returns for the deadline before the context's timer has run has timed out.
func TestAContextEndsByTheClock(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	slow := byClock{slowTimer{ctx}}
	go end(&timedOut{time.Second})
	require.ErrorIs(t, slow.Err(), context.Canceled)
	err := explain(leftAt(slow, "", "; it runs on"))
	require.Equal(t, exitTimedOut, err.code)
	require.Equal(t, "timed out after 1s; it runs on", err.line)
}
