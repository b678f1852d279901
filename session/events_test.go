package session

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
)

// newLog opens a log on a stream of its own.
func newLog(t *testing.T) *stream.Log {
	t.Helper()
	env := servers.Get(t).Env
	url := strings.Replace(env["NATS_URL"], "nats://", "nats://"+env["NATS_TOKEN"]+"@", 1)
	id := strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()) + "-" + nats.NewInbox()[7:15]
	log, err := stream.Dial(t.Context(), url, stream.Options{Name: id, Prefix: strings.ToLower(id), Timeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	return log
}

// emit writes a server event and returns its number.
func emit(t *testing.T, log *stream.Log, after uint64, p event.Payload) uint64 {
	t.Helper()
	last, err := log.Emit(t.Context(), "s1", stream.Emission{Fence: stream.Fence{Epoch: 1}, Key: nats.NewInbox(), LastSeq: after, Events: []event.Event{{
		Payload: p, Context: event.Context{ConversationID: event.Main, Source: event.SourceServer},
	}}})
	require.NoError(t, err)
	return last
}

// following returns a handle of session s1 with a stream, and a context that ends before the
// tests are given up.
func following(t *testing.T, f *fakeTemporal) (context.Context, *stream.Log, *Handle) {
	t.Helper()
	log := newLog(t) // which may have to wait for the server
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c, err := NewClient(ClientOptions{Temporal: f, Agents: builtin.Registry(), Stream: log})
	require.NoError(t, err)
	h, err := c.Get(ctx, "s1")
	require.NoError(t, err)
	return ctx, log, h
}

func completed() event.QueryCompleted {
	return event.QueryCompleted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}, Result: &event.QueryResult{Response: "hello"}}}
}

var receipt = Receipt{SessionID: "s1", MessageID: "m1", ExecutionID: "x1"}

// A steered message ends with the execution into which it was folded, and is awaited also by
// the id of the execution that its receipt promised.
func TestAwaitEndOfASteeredMessage(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	end := event.QueryCompleted{Query: event.Query{ExecutionID: "x6", MessageIDs: []string{"m6", "m7"}, Result: &event.QueryResult{Response: "hello"}}}
	busy := true
	f.answer = func() (any, error) {
		switch f.asked {
		case QuerySnapshot:
			return Snapshot{}, nil
		case QueryReceipt:
			return Receipt{SessionID: "s1", MessageID: "m7", ExecutionID: "x7", Handling: HandlingHanded}, nil
		}
		if busy {
			busy = false
			return nil, across(ToTemporal(ErrBusy))
		}
		return resultOf(end.Query, "m7", Completed), nil
	}
	ctx, log, h := following(t, f)
	emit(t, log, 0, end)
	res, err := h.AwaitEnd(ctx, "x7")
	require.NoError(t, err)
	require.Equal(t, "x6", res.ExecutionID)
	require.Equal(t, "m7", res.MessageID)
	require.Equal(t, "hello", res.Result.Response)
}

// A session whose host was lost right behind the end of a turn continues behind that end before it
// has it: a caller that waits then gets the end that the stream has already.
func TestAwaitAnEndThatTheSessionIsBehind(t *testing.T) {
	t.Parallel()
	for name, await := range map[string]func(context.Context, *Handle) error{
		"end":  func(ctx context.Context, h *Handle) error { _, err := h.AwaitEnd(ctx, "m1"); return err },
		"idle": func(ctx context.Context, h *Handle) error { _, err := h.AwaitIdle(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
			var last uint64
			asked := false
			f.answer = func() (any, error) {
				running := Snapshot{Status: StatusRunning, LastSeq: last}
				switch {
				case f.asked == QueryReceipt:
					return receipt, nil
				case f.asked == QuerySnapshot:
					return running, nil
				case f.asked == QueryInspect && asked:
					return Inspection{Phase: phaseIdle}, nil
				case f.asked == QueryInspect:
					return Inspection{Snapshot: running, CurrentExecution: "x1"}, nil
				case !asked:
					asked = true
					return nil, across(ToTemporal(ErrBusy))
				}
				return resultOf(completed().Query, "m1", Completed), nil
			}
			ctx, log, h := following(t, f)
			last = emit(t, log, emit(t, log, 0, completed()), event.EECreating{})
			require.NoError(t, await(ctx, h))
		})
	}
}

// The events of an ended execution are past retention, and none follows.
func TestWaitWhereTheStreamHasNothingLeft(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.answer = func() (any, error) { return resultOf(completed().Query, "m1", Completed), nil }
	ctx, log, h := following(t, f)
	emit(t, log, 0, completed())
	require.NoError(t, log.Purge(ctx, "s1"))
	res, err := h.Wait(ctx, receipt)
	require.NoError(t, err)
	require.Equal(t, "hello", res.Result.Response)
	whole, err := h.Execution(receipt).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "hello", whole.Response)
	require.Nil(t, whole.Outputs)
	require.ErrorIs(t, lastError(h.Execution(receipt).Events(ctx)), stream.ErrPurged)

	f.answer = func() (any, error) { return nil, across(ToTemporal(ErrNotFound)) }
	_, err = h.Wait(ctx, receipt)
	require.ErrorIs(t, err, ErrNotFound, "the session has dropped it")
	require.ErrorIs(t, lastError(h.Execution(receipt).Events(ctx)), stream.ErrPurged)
}

// A message whose execution has not begun, in a session without events, is waited for in the
// stream.
func TestWaitBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for name, unknown := range map[string]error{"busy": across(ToTemporal(ErrBusy)), "no worker": unreachable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, asked, emitted := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), make(chan struct{}, 1), make(chan struct{})
			f.answer = func() (any, error) {
				select {
				case <-emitted: // AwaitState asks again behind the end
					return resultOf(completed().Query, "m1", Completed), nil
				case asked <- struct{}{}:
				default:
				}
				return nil, unknown
			}
			ctx, log, h := following(t, f)
			go func() {
				defer close(emitted)
				<-asked
				emit(t, log, 0, completed())
			}()
			res, err := h.Wait(ctx, receipt)
			<-emitted
			require.NoError(t, err)
			require.Equal(t, "hello", res.Result.Response)
		})
	}
}

// A worker that says that the execution has not ended is waited for, however long that takes.
func TestAwaitStateWaitsWhileAWorkerAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		told := time.Now().Add(time.Minute)
		f.answer = func() (any, error) {
			if time.Now().Before(told) {
				return nil, across(ToTemporal(ErrBusy))
			}
			return resultOf(completed().Query, "m1", Completed), nil
		}
		h, err := newClient(t, f).Get(t.Context(), "s1")
		require.NoError(t, err)
		h.AwaitState(t.Context(), "x1")
		require.False(t, time.Now().Before(told))

		f.known["s1"].Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		told = time.Now().Add(time.Hour)
		h.AwaitState(t.Context(), "x1")
		require.True(t, time.Now().Before(told), "a terminated session stays as it was")
	})
}

// Behind session:closed a follower ends, unless the session was opened again.
func TestFollowBehindTheEnd(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	ctx, log, h := following(t, f)
	emit(t, log, 0, completed())
	last := emit(t, log, 1, event.SessionClosed{})
	require.NoError(t, lastError(h.c.Events(ctx, "s1", last, Follow)))

	f.known["s1"].Status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		emit(t, log, last, completed())
		emit(t, log, last+1, event.SessionClosed{})
	}()
	var got []uint64
	for ev, err := range h.c.Events(ctx, "s1", last, Follow) {
		require.NoError(t, err)
		if got = append(got, ev.Context.Seq); ev.Context.Seq == last+2 {
			f.known["s1"].Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		}
	}
	<-emitted
	require.Equal(t, []uint64{last + 1, last + 2}, got)
}

// A session that was closed before all was purged has no further event: its followers end.
func TestFollowOfAClosedSessionWithoutEvents(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	ctx, log, h := following(t, f)
	last := emit(t, log, 0, event.SessionClosed{})
	require.NoError(t, log.Purge(ctx, "s1"))
	for _, after := range []uint64{0, last} {
		require.NoError(t, lastError(h.Events(ctx, after, Follow)))
	}
	for _, err := range h.TreeEvents(ctx, TreeOptions{Follow: Follow}) {
		require.NoError(t, err)
	}

	// What cleans up after a terminated session writes its end.
	f.known["s1"].Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		emit(t, log, last, event.SessionClosed{})
	}()
	var got []event.Payload
	for ev, err := range h.TreeEvents(ctx, TreeOptions{Follow: Follow}) {
		require.NoError(t, err)
		got = append(got, ev.Payload)
	}
	<-emitted
	require.Equal(t, []event.Payload{event.SessionClosed{}}, got)
}

// An answer that is longer than what the session keeps of it is returned whole as long as the
// stream has it, although the session's first events are past retention.
func TestAwaitEndOfALongAnswerOfAnOldSession(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	end := completed()
	end.Result = &event.QueryResult{Response: "hel…", Truncated: true, ResponseBlockID: "text", LastSeq: 2}
	f.answer = func() (any, error) {
		if f.asked == QuerySnapshot {
			return Snapshot{}, nil
		}
		return resultOf(end.Query, "m1", Completed), nil
	}
	ctx, log, h := following(t, f)
	last := emit(t, log, 0, event.SessionIdle{})
	require.NoError(t, log.Purge(ctx, "s1"))
	last = emit(t, log, last, event.BlockUpsert{Block: event.Block{
		ID: "text", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("hello"),
	}})
	emit(t, log, last, end)
	res, err := h.AwaitEnd(ctx, "m1")
	require.NoError(t, err)
	require.Equal(t, "hello", res.Result.Response)
	require.False(t, res.Result.Truncated)
}

func lastError(events func(func(event.Event, error) bool)) (last error) {
	for _, err := range events {
		last = errors.Join(last, err)
	}
	return last
}

// What began before a message was folded in, and changed behind it, is no output of it: of
// such a block its execution has only the change.
func TestOutputsAreWhole(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.answer = func() (any, error) { return resultOf(completed().Query, "m1", Completed), nil }
	ctx, log, h := following(t, f)
	call := func(id string, how event.Execution) event.Payload {
		return event.BlockUpsert{Block: event.Block{
			ID: id, Type: event.BlockToolUse, Status: event.StatusComplete, ToolName: "shell", ToolUseID: id, Execution: how,
		}}
	}
	change := func(b event.Block) event.Payload { return event.BlockUpsert{Block: b} }
	lost := event.Block{ID: "lost", Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError,
		Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")}}
	last := uint64(0)
	for _, p := range []event.Payload{
		call("before", event.ExecutionRunning), call("lost", event.ExecutionRunning),
		event.SubagentSpawned{ToolUseID: "sub"},
		event.MessageFolded{MessageRef: event.MessageRef{MessageID: "m1"}},
		change(event.Block{ID: "before", Type: event.BlockToolUse, Execution: event.ExecutionSuccess}),
		change(event.Block{ID: "before:result", Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: "before"}),
		change(event.Block{ID: "text", Type: event.BlockAssistantText, Usage: &event.Usage{OutputTokens: 1}}),
		change(event.Block{ID: "broken", Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError}),
		change(lost), event.SubagentCompleted{ToolUseID: "sub"},
		call("behind", event.ExecutionRunning), event.SubagentSpawned{ToolUseID: "sub2"},
		change(event.Block{ID: "behind", Type: event.BlockToolUse, Execution: event.ExecutionSuccess}),
		completed(),
	} {
		last = emit(t, log, last, p)
	}
	res, err := h.Execution(receipt).Wait(ctx)
	require.NoError(t, err)
	var ids []string
	for _, b := range res.Outputs {
		ids = append(ids, b.ID)
	}
	require.Equal(t, []string{"before:result", "behind", event.SubagentBlockID("sub2")}, ids)
	require.Equal(t, event.ExecutionSuccess, res.Outputs[1].Execution)
}
