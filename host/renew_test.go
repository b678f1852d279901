package host

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// unopened provides sandboxes that can't be opened: no agent of theirs answers.
type unopened struct{ sandbox.Provider }

func (unopened) Open(context.Context, string) (sandbox.Sandbox, error) {
	return nil, errors.New("no sandbox")
}

func (unopened) List(context.Context) ([]sandbox.Info, error) { return nil, nil }

// A session that has accepted is asked again only much later, or for another reason: also a
// host that is drained, returned to service and drained again asks at once.
func TestDemand(t *testing.T) {
	t.Parallel()
	var asked []string
	h := New(Options{
		DataDir: t.TempDir(), MaxAge: time.Hour, Provider: unopened{}, Log: slog.New(slog.DiscardHandler),
		Evict: func(_ context.Context, _ string, req session.EvictRequest) error {
			asked = append(asked, req.Reason)
			return nil
		},
	})
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	var last demand
	look := func(age time.Duration, drained bool) {
		t.Helper()
		require.NoError(t, h.SetDraining(drained))
		var err error
		last, err = h.demand(t.Context(), sandbox.Info{SessionID: "s1", Created: time.Now().Add(-age)}, last)
		require.NoError(t, err)
	}
	look(time.Minute, false)
	require.Empty(t, asked, "it is young")
	look(2*time.Hour, false)
	look(2*time.Hour, false)
	require.Equal(t, []string{"age"}, asked, "once")
	last = demand{}
	look(time.Minute, true)
	look(time.Minute, true)
	look(time.Minute, false)
	look(time.Minute, true)
	require.Equal(t, []string{"age", "drain", "drain"}, asked)
	last.at = last.at.Add(-renewAgain)
	look(time.Minute, true)
	require.Len(t, asked, 4, "long unanswered")
	_, err := h.demand(t.Context(), sandbox.Info{SessionID: "s2", Shares: "another"}, demand{})
	require.NoError(t, err)
	require.Len(t, asked, 4, "one in another sandbox goes with that one")
}
