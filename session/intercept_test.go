package session

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

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

// An interceptor may replace a request, or try again: ids stay, so that a message is accepted
// once.
func TestInterceptorsKeepIDs(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.update = func(client.UpdateWorkflowOptions) error { return nil }
	c := newClient(t, f)
	h, err := c.Get(t.Context(), "s1")
	require.NoError(t, err)
	h = h.Use(func(ctx context.Context, call *Call, next func(context.Context) error) error {
		switch req := call.Request.(type) {
		case *Message:
			*req = Message{Text: "replaced"}
		case *SpawnRequest:
			*req = SpawnRequest{Options: Options{Agent: "claude"}, Message: Message{Text: "replaced"}}
		case *InterruptRequest:
			req.Message = &Message{Text: "replaced"}
		}
		return errors.Join(next(ctx), next(ctx))
	})
	_, err = h.Send(t.Context(), Message{ID: "m1", Text: "hello"})
	require.NoError(t, err)
	_, err = h.Spawn(t.Context(), SpawnRequest{ID: "c1", Message: Message{ID: "m2", Text: "hello"}})
	require.NoError(t, err)
	_, err = h.Interrupt(t.Context(), InterruptRequest{Message: &Message{ID: "m3", Text: "hello"}})
	require.NoError(t, err)
	require.NoError(t, h.Queue(t.Context(), Message{ID: "m4", Text: "hello"}))
	_, err = h.EditQueue(t.Context(), QueueEdit{MessageID: "m4", Cancel: true})
	require.NoError(t, err)
	var ids []string
	for _, u := range f.updates {
		switch req := u.Args[0].(type) {
		case Message:
			ids = append(ids, req.ID+" "+req.Text)
		case SpawnRequest:
			ids = append(ids, req.ID+" "+req.Message.ID+" "+req.Message.Text)
		case InterruptRequest:
			ids = append(ids, req.Message.ID+" "+req.Message.Text)
		case QueueEdit:
			ids = append(ids, "edit of "+req.MessageID)
		}
	}
	require.Equal(t, []string{"m1 replaced", "m1 replaced", "c1 m2 replaced", "c1 m2 replaced", "m3 replaced", "m3 replaced", "edit of m4", "edit of m4"}, ids)
	require.Equal(t, f.updates[0].UpdateID, f.updates[1].UpdateID)
	require.Equal(t, []string{SignalQueue, SignalQueue}, f.signals)
}

// A session that an interceptor asks for again is made once.
func TestInterceptedRun(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{}
	c := newClient(t, f)
	again := func(ctx context.Context, call *Call, next func(context.Context) error) error {
		if m, ok := call.Request.(*Message); ok {
			*m = Message{Text: "replaced"}
		}
		return errors.Join(next(ctx), next(ctx))
	}
	c.o.Interceptors = []Interceptor{again, again}
	h, rec, err := c.Run(t.Context(), Options{Agent: "claude"}, Message{ID: "m1", Text: "hello"})
	require.NoError(t, err)
	require.Len(t, f.started, 1)
	require.Equal(t, Receipt{SessionID: h.ID(), MessageID: "m1", ExecutionID: FirstExecution}, rec)
	require.Equal(t, "m1 replaced", f.started[0].First.ID+" "+f.started[0].First.Text)

	c.o.Interceptors = []Interceptor{func(ctx context.Context, call *Call, next func(context.Context) error) error {
		if call.Operation == OperationSend {
			return nil
		}
		return next(ctx)
	}}
	_, _, err = c.Run(t.Context(), Options{Agent: "claude"}, Message{Text: "hello"})
	require.ErrorContains(t, err, "an interceptor neither continued nor said why")
	require.Len(t, f.started, 1)
}
