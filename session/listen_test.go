package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/event"
)

// heard returns what is called back of events.
func heard(events ...event.Event) (out []string) {
	l := listener{Callbacks: Callbacks{
		OnTickStart: func(tick int, execution string) { out = append(out, fmt.Sprintf("%s/%d", execution, tick)) },
		OnTickEnd: func(tick int, usage *event.Usage) {
			tokens := -1
			if usage != nil {
				tokens = int(usage.OutputTokens)
			}
			out = append(out, fmt.Sprintf("%d took %d", tick, tokens))
		},
		OnComplete: func(r Result) { out = append(out, r.ExecutionID+" "+string(r.Outcome)+" "+r.MessageID) },
		OnError:    func(err error) { out = append(out, err.Error()) },
	}}
	for _, ev := range events {
		l.add(ev)
	}
	return out
}

func TestTicksOfAListener(t *testing.T) {
	t.Parallel()
	begin := func(x string) event.Event { return of(event.QueryStarted{Query: event.Query{ExecutionID: x}}) }
	tick := of(event.MetadataUpdate{Calls: 1})
	took := func(block string, tokens int64) event.Event {
		return of(event.BlockUpsert{Block: event.Block{ID: block, Usage: &event.Usage{OutputTokens: tokens}}})
	}
	end := of(event.QueryCompleted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1", "m2"}}})
	for name, c := range map[string]struct {
		events []event.Event
		want   []string
	}{
		"two calls":             {[]event.Event{begin("x1"), tick, took("a", 3), tick, end}, []string{"x1/1", "1 took 3", "x1/2", "2 took -1", "x1 completed m1"}},
		"said again":            {[]event.Event{begin("x1"), tick, took("a", 3), took("a", 4), took("b", 1), end}, []string{"x1/1", "1 took 5", "x1 completed m1"}},
		"resumed":               {[]event.Event{begin("x1"), tick, begin("x1"), tick, end}, []string{"x1/1", "1 took -1", "x1/2", "2 took -1", "x1 completed m1"}},
		"the beginning is past": {[]event.Event{tick, took("a", 3), tick, end}, []string{"x1 completed m1"}},
		"no calls reported":     {[]event.Event{begin("x1"), took("a", 3), end}, []string{"x1 completed m1"}},
		"of a native subagent":  {[]event.Event{begin("x1"), within("sub", tick.Payload), end}, []string{"x1 completed m1"}},
		"it never ran":          {[]event.Event{of(event.QueryInterrupted{Query: event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}})}, []string{"x2 interrupted m2"}},
		"it failed": {
			[]event.Event{begin("x1"), tick, of(event.QueryFailed{Query: event.Query{ExecutionID: "x1", Error: &event.ErrorInfo{Message: "no"}}})},
			[]string{"x1/1", "1 took -1", "execution x1 failed: no"},
		},
		"a fault": {[]event.Event{of(event.Error{ErrorInfo: event.ErrorInfo{Message: "died"}})}, []string{"session s1: died"}},
	} {
		require.Equal(t, c.want, heard(c.events...), name)
	}
	listener := listener{}
	for _, ev := range []event.Event{begin("x1"), tick, took("a", 1), end} {
		listener.add(ev) // without callbacks nothing happens
	}
}

func of(p event.Payload) event.Event { return within(event.Main, p) }

func within(conversation string, p event.Payload) event.Event {
	return event.Event{Payload: p, Context: event.Context{SessionID: "s1", ConversationID: conversation}}
}

// What an interceptor changes is validated as if it had been asked, and one that does not
// continue makes nothing.
func TestInterceptedCreate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	by := func(i Interceptor) *Client {
		c := newClient(t, &fakeTemporal{})
		c.o.Interceptors = []Interceptor{i}
		return c
	}
	h, err := by(func(ctx context.Context, call *Call, next func(context.Context) error) error {
		call.Request.(*Options).Title = "changed"
		return next(ctx)
	}).Create(ctx, "s1", Options{Agent: "claude"})
	require.NoError(t, err)
	require.Equal(t, "changed", h.c.o.Temporal.(*fakeTemporal).started[0].Options.Title)

	_, err = by(func(ctx context.Context, call *Call, next func(context.Context) error) error {
		call.Request.(*Options).Agent = "none"
		return next(ctx)
	}).Create(ctx, "s1", Options{Agent: "claude"})
	refuses(t, "agent", err)

	c := by(func(context.Context, *Call, func(context.Context) error) error { return nil })
	_, err = c.Create(ctx, "s1", Options{Agent: "claude"})
	require.ErrorContains(t, err, "session s1: an interceptor neither continued nor said why")
	require.Empty(t, c.o.Temporal.(*fakeTemporal).started)
}

// An interceptor may try again: a message keeps its id.
func TestAnInterceptorTriesAgain(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.update = func(client.UpdateWorkflowOptions) error { return nil }
	h, err := newClient(t, f).Get(t.Context(), "s1")
	require.NoError(t, err)
	_, err = h.Use(func(ctx context.Context, _ *Call, next func(context.Context) error) error {
		return errors.Join(next(ctx), next(ctx))
	}).Send(t.Context(), Message{Text: "hello"})
	require.NoError(t, err)
	require.Len(t, f.updates, 2)
	require.Equal(t, f.updates[0].UpdateID, f.updates[1].UpdateID)
}
