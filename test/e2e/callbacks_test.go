package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// calls are what was called, in order.
type calls struct {
	mu   sync.Mutex
	said []string
}

func (c *calls) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// all returns what was called since the last time.
func (c *calls) all() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, c.said = c.said, nil
	return out
}

// interceptor notes an operation before and after it.
func (c *calls) interceptor(name string) session.Interceptor {
	return func(ctx context.Context, call *session.Call, next func(context.Context) error) error {
		c.add("%s: %s", name, call.Operation)
		err := next(ctx)
		c.add("%s: %s done", name, call.Operation)
		return err
	}
}

// clientWith returns a client of the test's own, with changed options.
func clientWith(t *testing.T, change func(*session.ClientOptions)) *session.Client {
	t.Helper()
	o := session.ClientOptions{Temporal: spaceOf(t).Temporal, Stream: spaceOf(t).Log, Archive: spaceOf(t).Archive, Agents: builtin.Registry()}
	change(&o)
	c, err := session.NewClient(o)
	require.NoError(t, err)
	return c
}

// Send, render, queue and spawn pass through what a handle is told to use, and a context and a
// time limit are the context's. The handle from which it was made is as it was.
func TestR25Procedures(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	type key struct{}
	h, noted := open(t, session.Options{}), &calls{}
	with := h.Use(noted.interceptor("outer"), func(ctx context.Context, call *session.Call, next func(context.Context) error) error {
		if m, ok := call.Request.(*session.Message); ok {
			m.Text += fmt.Sprint(ctx.Value(key{}))
		}
		require.Equal(t, h.ID(), call.SessionID)
		return next(ctx)
	}, noted.interceptor("inner"))
	around := func(op string) []string {
		return []string{"outer: " + op, "inner: " + op, "inner: " + op + " done", "outer: " + op + " done"}
	}

	r, err := with.Send(context.WithValue(ctx, key{}, " from the context"), session.Message{Text: "SAY hello"})
	require.NoError(t, err)
	res, err := with.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "hello from the context", res.Result.Response, "it may change what is sent")
	require.Equal(t, around("send"), noted.all())

	require.NoError(t, with.Queue(context.WithValue(ctx, key{}, ", later"), session.Message{Text: "SAY queued"}))
	require.Equal(t, around("queue"), noted.all())
	require.Eventually(t, func() bool { return len(inspection(t, h).Queued) == 1 }, patience, tick)
	rendered, err := with.Render(ctx, session.Configure{})
	require.NoError(t, err)
	require.Equal(t, around("render"), noted.all())
	res, err = with.Wait(ctx, rendered.Receipts[0])
	require.NoError(t, err)
	require.Equal(t, "queued, later", res.Result.Response)

	x, err := with.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY below"}})
	require.NoError(t, err)
	require.Equal(t, around("spawn"), noted.all())
	below, err := x.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "below", below.Response)

	require.NoError(t, say(t, h, "SAY plain").Err())
	require.Empty(t, noted.all(), "the handle itself has no interceptors")

	hasty := h.Use(func(ctx context.Context, _ *session.Call, next func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
		defer cancel()
		<-ctx.Done()
		return next(ctx)
	})
	_, err = hasty.Send(ctx, session.Message{Text: "SAY too late"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 3, inspection(t, h).Turns, "nothing was asked")
}

// callbacks note what they are called with.
func (c *calls) callbacks(name string) session.Callbacks {
	return session.Callbacks{
		OnTickStart: func(tick int, execution string) { c.add("%s: tick %d of %s", name, tick, execution) },
		OnTickEnd: func(tick int, usage *event.Usage) {
			c.add("%s: tick %d took tokens: %t", name, tick, usage != nil && usage.OutputTokens > 0)
		},
		OnComplete: func(r session.Result) { c.add("%s: %s is %s", name, r.ExecutionID, r.Outcome) },
		OnError:    func(err error) { c.add("%s: %s", name, err) },
	}
}

// TestR121LifecycleCallbacks: what happens is called back, at the level of the client and of
// the session.
func TestR121LifecycleCallbacks(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	noted := &calls{}
	c := clientWith(t, func(o *session.ClientOptions) {
		o.Callbacks = func(h *session.Handle) session.Callbacks {
			return session.Callbacks{OnComplete: func(r session.Result) { noted.add("app: %s of %s", r.ExecutionID, h.ID()) }}
		}
	})
	h, err := c.Open(ctx, "", session.Options{Agent: "claude"})
	require.NoError(t, err)
	require.NoError(t, say(t, h, twoTools).Err())
	require.Error(t, say(t, h, "ERR400").Err())
	r, _ := sendToGate(ctx, t, h, "")
	_, err = h.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	_, err = h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, h.Close(ctx))

	called := noted.callbacks("session")
	var seen []event.Event
	called.OnEvent = func(ev event.Event) { seen = append(seen, ev) }
	require.NoError(t, h.Listen(ctx, 0, called), "it ends with the session")
	require.Equal(t, events(t, h), seen, "every event, once and in order")
	said := noted.all()
	require.Greater(t, len(said), 8, "%q", said)
	require.True(t, slices.ContainsFunc(said[8:], func(s string) bool { return strings.HasPrefix(s, "session: execution x2 failed: ") }), "%q", said)
	require.Equal(t, []string{
		"session: tick 1 of x1", "session: tick 1 took tokens: true", "session: tick 2 of x1", "session: tick 2 took tokens: true",
		"session: tick 3 of x1", "app: x1 of " + h.ID(), "session: tick 3 took tokens: true", "session: x1 is completed",
	}, said[:8])
	require.Equal(t, "session: x3 is interrupted", said[len(said)-1])

	require.NoError(t, h.Listen(ctx, seen[len(seen)-1].Context.Seq, noted.callbacks("late")))
	require.Empty(t, noted.all())
}

// TestR39CallbackIsolation: what a child does is not called back for its parent, at the level of
// the client and of the session.
func TestR39CallbackIsolation(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	noted, sends := &calls{}, &calls{}
	c := clientWith(t, func(o *session.ClientOptions) {
		o.Callbacks = func(h *session.Handle) session.Callbacks {
			return session.Callbacks{OnComplete: func(r session.Result) { noted.add("app: %s of %s", r.ExecutionID, h.ID()) }}
		}
	})
	made, err := c.Create(ctx, "", session.Options{Agent: anyAgent(t)})
	require.NoError(t, err)
	h := made.Use(sends.interceptor("parent"))
	r, err := h.Send(ctx, session.Message{Text: "SAY above"})
	require.NoError(t, err)
	_, err = h.Wait(ctx, r)
	require.NoError(t, err)
	sends.all()
	gate := "isolated-" + uuid.NewString() // the child is at work until it has the second message
	x, err := h.SpawnExecution(ctx, session.SpawnRequest{Message: session.Message{Text: "TOOL bash: echo one THEN GATE " + gate}})
	require.NoError(t, err)
	second, err := x.Queue(ctx, session.Message{Text: "SAY more"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	spaceOf(t).Model.Open(gate)
	child, err := c.Get(ctx, x.Receipt().SessionID)
	require.NoError(t, err)
	_, err = child.Wait(ctx, second)
	require.NoError(t, err)
	require.Equal(t, []string{"parent: spawn", "parent: spawn done"}, sends.all(), "what is sent to the child is no call of its parent's")
	require.NoError(t, h.Close(ctx))

	require.NoError(t, h.Listen(ctx, 0, noted.callbacks("parent")))
	require.Equal(t, []string{"parent: tick 1 of x1", "app: x1 of " + h.ID(), "parent: tick 1 took tokens: true", "parent: x1 is completed"}, noted.all())
	require.NoError(t, child.Listen(ctx, 0, noted.callbacks("child")))
	require.Contains(t, noted.all(), "child: tick 2 of x1", "the child has its own")
}

// TestR122AppCallbacks: a client's interceptors are called before and after what is sent, and
// when a session is created and closed; a tool call that waits is called back, and answered.
func TestR122AppCallbacks(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	noted, refused := &calls{}, errors.New("not today")
	c := clientWith(t, func(o *session.ClientOptions) {
		o.Interceptors = []session.Interceptor{func(ctx context.Context, call *session.Call, next func(context.Context) error) error {
			switch req := call.Request.(type) {
			case *session.Options:
				req.Title = "titled by the app"
			case *session.Message:
				if req.Text == "SAY forbidden" {
					return refused
				}
				req.Text += " and more"
			}
			err := next(ctx)
			switch reply := call.Reply.(type) {
			case *session.Handle:
				noted.add("created %s", reply.ID())
			case *session.Receipt:
				noted.add("sent as %s", reply.ExecutionID)
			default:
				noted.add("%s of %s", call.Operation, call.SessionID)
			}
			return err
		}}
	})
	h, err := c.Open(ctx, "", session.Options{Agent: "claude", Permission: permission.Ask})
	require.NoError(t, err)
	require.Equal(t, []string{"created " + h.ID()}, noted.all())
	require.Equal(t, "titled by the app", inspection(t, h).Title)
	_, err = h.Send(ctx, session.Message{Text: "SAY forbidden"})
	require.ErrorIs(t, err, refused)

	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: touch made THEN SAY made"})
	require.NoError(t, err)
	require.Equal(t, []string{"sent as x1"}, noted.all(), "what was refused was not accepted")
	listening, stop := context.WithCancel(ctx)
	var heard error
	done := make(chan struct{})
	go func() {
		defer close(done)
		heard = h.Listen(listening, 0, session.Callbacks{OnToolConfirmation: func(ev event.Event) {
			noted.add("asked for %s", ev.Payload.(event.PermissionRequested).ToolName)
			if err := h.RespondTo(ctx, ev, session.RespondRequest{Allow: true}); err != nil {
				noted.add("%s", err)
			}
		}})
	}()
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "made and more", res.Result.Response)
	require.Equal(t, []string{"asked for Bash"}, noted.all())
	stop()
	<-done
	require.ErrorIs(t, heard, context.Canceled)

	require.NoError(t, h.Close(ctx))
	require.Equal(t, []string{"close of " + h.ID()}, noted.all())

	one, receipt, err := c.Run(ctx, session.Options{Agent: "claude"}, session.Message{Text: "SAY once"})
	require.NoError(t, err)
	res, err = one.Wait(ctx, receipt)
	require.NoError(t, err)
	require.Equal(t, "once and more", res.Result.Response)
	require.Equal(t, []string{"sent as x1", "created " + one.ID()}, noted.all())
}
