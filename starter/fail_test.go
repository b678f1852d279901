package starter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/session"
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

// A batch that has ended refuses what is asked of it, as a closed session does.
func TestAnEndedBatchRefuses(t *testing.T) {
	t.Parallel()
	f := explain(fmt.Errorf("batch b1: %w", batch.ErrEnded))
	require.Equal(t, exitRefused, f.code)
	require.Equal(t, "batch b1: the batch has ended", f.line)
	require.Contains(t, f.hint, "batch results")
}

// What is said of an unknown batch or schedule is not about sessions.
func TestErrorsOfWhatIsNoSession(t *testing.T) {
	t.Parallel()
	said := func(err error) *failure { return explain(inWordsOf("schedule", "s1", "look", err)) }
	require.Equal(t, &failure{line: "there is no schedule s1", hint: "look", code: exitFailed}, said(fmt.Errorf("schedule s1: %w", session.ErrNotFound)))
	require.Equal(t, &failure{line: "there is a schedule s1 already", hint: "choose another id", code: exitRefused}, said(fmt.Errorf("schedule s1: %w", session.ErrExists)))
	require.Equal(t, exitUsage, said(session.Invalid("cron", "is bad", "times")).code)
	require.NoError(t, inWordsOf("schedule", "s1", "look", nil))
}
