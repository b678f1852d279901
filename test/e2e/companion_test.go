package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// diary records the calls of a companion, which counts executions in its state.
type diary struct {
	mu    sync.Mutex
	lines []string
	count int
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *diary) companion() session.Companion {
	return session.Companion{
		Name:   "counter",
		OnInit: func(_ context.Context, s session.SessionRef) error { d.add("init %s", s.Status); return nil },
		OnRestore: func(_ context.Context, _ session.SessionRef, state json.RawMessage) error {
			d.add("restore %s", state)
			return json.Unmarshal(state, &d.count)
		},
		OnToolCall: func(_ context.Context, s session.SessionRef, call event.PermissionRequested) (*session.RespondRequest, error) {
			d.add("tool %s", s.ID)
			return &session.RespondRequest{Allow: true}, nil
		},
		OnPersist: func(ctx context.Context, s session.SessionRef, r session.Result) (json.RawMessage, error) {
			if _, err := s.Snapshot(ctx); err != nil {
				return nil, err
			}
			d.count++
			d.add("persist %s", r.Outcome)
			return json.Marshal(d.count)
		},
		OnDestroy: func(_ context.Context, s session.SessionRef) error { d.add("destroy %s", s.Status); return nil },
	}
}

// accompany calls a companion until stop is called, or the session is closed.
func accompany(t *testing.T, h *session.Handle, c session.Companion) (stop func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	end := make(chan error, 1)
	go func() { end <- h.Accompany(ctx, c) }()
	return cancel, end
}

func awaitLines(t *testing.T, d *diary, want ...string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool { return assert.Equal(c, want, d.read()) }, time.Minute, tick)
}

// awaitState waits until a companion's state is in its session's snapshot.
func awaitState(t *testing.T, h *session.Handle, state string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool {
		s, err := h.Snapshot(testContext(t))
		require.NoError(c, err)
		return assert.Equal(c, state, string(s.Companions["counter"]))
	}, time.Minute, tick)
}

// A companion's functions are called once in a session's life, per execution and per tool call,
// in the order of what happens, also for what happened while its program was away.
func TestR123ExecutionRunner(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Permission: adapters.PermissionAsk})
	var d diary
	stop, ended := accompany(t, h, d.companion())
	awaitLines(t, &d, "init idle")
	require.NoError(t, say(t, h, "SAY one").Err())
	require.NoError(t, say(t, h, "TOOL bash: echo two").Err())
	awaitLines(t, &d, "init idle", "persist completed", "tool "+h.ID(), "persist completed")
	awaitState(t, h, "2")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)

	require.NoError(t, say(t, h, "SAY three").Err())
	var again diary
	_, ended = accompany(t, h, again.companion())
	awaitLines(t, &again, "restore 2", "persist completed")
	require.NoError(t, h.Close(ctx))
	awaitLines(t, &again, "restore 2", "persist completed", "destroy closed")
	require.NoError(t, <-ended)
	require.NoError(t, h.Accompany(ctx, again.companion()), "of a session that is done with")
	require.Len(t, again.read(), 3, "each once")

	// The same by a session's next life.
	reopened, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	var last diary
	stop, ended = accompany(t, reopened, last.companion())
	awaitLines(t, &last, "restore 3")
	require.NoError(t, say(t, reopened, "SAY four").Err())
	awaitLines(t, &last, "restore 3", "persist completed")
	awaitState(t, reopened, "4")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorAs(t, h.Accompany(ctx, session.Companion{}), new(*session.InvalidError), "it needs a name")

	// A life during which the program was away, by the handle of an earlier one.
	require.NoError(t, reopened.Close(ctx))
	var late diary
	require.NoError(t, h.Accompany(ctx, late.companion()))
	require.Equal(t, []string{"restore 4", "destroy closed"}, late.read())
	missed, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, missed, "SAY five").Err())
	require.NoError(t, missed.Close(ctx))
	var behind diary
	require.NoError(t, h.Accompany(ctx, behind.companion()))
	require.Equal(t, []string{"restore 4", "persist completed", "destroy closed"}, behind.read())
	require.NoError(t, h.Accompany(ctx, behind.companion()))
	require.Len(t, behind.read(), 3)
}

// What OnPersist returns is in the session's snapshot, and OnRestore has it.
func TestR134RunnerState(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"core"`)}})
	var d diary
	stop, ended := accompany(t, h, d.companion())
	awaitLines(t, &d, "init idle")
	require.NoError(t, say(t, h, "SAY one").Err())
	awaitState(t, h, "1")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, h.Close(ctx))

	var described session.Inspection
	sojournJSON(t, &described, "describe", h.ID())
	require.Equal(t, `1`, string(described.Companions["counter"]), "a closed session has it too")
	require.JSONEq(t, `"core"`, string(described.Options.Metadata["team"]))
	reopened, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	var again diary
	stop, ended = accompany(t, reopened, again.companion())
	eventually(t, func(c *assert.CollectT) bool { return assert.Contains(c, again.read(), "restore 1") }, time.Minute, tick)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	forked, err := spaceOf(t).Client.Fork(ctx, h.ID(), session.Fork{})
	require.NoError(t, err)
	s, err := forked.Snapshot(ctx)
	require.NoError(t, err)
	require.Empty(t, s.Companions, "a fork has a life of its own")
}
