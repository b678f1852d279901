package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// twoTools is a prompt that takes three model calls.
const twoTools = "TOOL bash: echo one THEN TOOL bash: echo two THEN SAY done"

// TestR31ExecutionAndTicks: an execution has one or more model calls, which are counted
// if the agent reports them, and unknown otherwise. A message with maxTicks ends after
// that many, whatever the session's limit, and the next message runs.
func TestR31ExecutionAndTicks(t *testing.T) {
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		if !a.Info().Capabilities.Ticks {
			requireUncounted(ctx, t, a.Info().Name)
			return
		}
		h := open(t, session.Options{Agent: a.Info().Name, MaxTicks: 50})
		require.Nil(t, snapshotOf(ctx, t, h).TickCount, "unknown, not 0")
		require.Equal(t, 3, *say(t, h, twoTools).Result.Ticks)

		r, err := h.Send(ctx, session.Message{Text: twoTools, MaxTicks: 2})
		require.NoError(t, err)
		res, err := h.Execution(r).Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Raw.Outcome)
		require.Equal(t, "max_ticks", res.StopReason)
		require.Equal(t, "the message's 2 model calls are made", res.Raw.Reason)
		require.Equal(t, session.TypeMaxTicks, res.Raw.Error.Code)

		require.Equal(t, 1, *say(t, h, "SAY what comes next").Result.Ticks, "it has ended, and nothing continues it")
		s := snapshotOf(ctx, t, h)
		require.Equal(t, 3, s.Turns)
		require.GreaterOrEqual(t, *s.TickCount, 6)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())

		h, err = spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
		require.NoError(t, err)
		again := say(t, h, "SAY again")
		require.NoError(t, again.Err())
		require.Equal(t, 1, *again.Result.Ticks)
		require.Equal(t, *s.TickCount+1, *snapshotOf(ctx, t, h).TickCount, "the count continues after close and reopen")
		require.NoError(t, h.Close(ctx))
	})
}

// TestMaxTicksCountsOverParkings: a message's model calls are counted over the parkings of
// its turn. The resumed agent may make one with the answer in any case.
func TestMaxTicksCountsOverParkings(t *testing.T) {
	skip.InShort(t, "TestR31ExecutionAndTicks has maxTicks, TestR21AnsweredAfterWeeks a parking")
	withClaude(t)
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk, Park: 1000, MaxTicks: 2})
	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: touch one.txt THEN TOOL bash: touch two.txt THEN SAY done"})
	require.NoError(t, err)
	heardUntil(t, h, r.AfterSeq, nth[event.PermissionRequested](1))
	for asked := awaitAskedOrDone(t, h, r); len(asked) > 0; asked = awaitAskedOrDone(t, h, r) {
		awaitParked(t, h, asked[0])
		require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked[0], Allow: true}))
		require.Eventually(t, func() bool { return !slices.Contains(inspection(t, h).Pending, asked[0]) }, patience, tick)
	}
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "the message's 2 model calls are made", res.Reason)
	require.Equal(t, session.TypeMaxTicks, res.Error.Code)
	require.NoError(t, h.Close(ctx))
}

// requireUncounted: limits that could not be enforced are refused, and an unknown count
// is not 0.
func requireUncounted(ctx context.Context, t *testing.T, agent string) {
	_, err := spaceOf(t).Client.Open(ctx, "", session.Options{Agent: agent, MaxTicks: 3})
	var invalid *session.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "maxTicks", invalid.Field)
	_, err = spaceOf(t).Client.Open(ctx, "", session.Options{Agent: agent, Limits: limits.Limits{ModelCalls: 3}})
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "limits.modelCalls", invalid.Field)
	h := open(t, session.Options{Agent: agent})
	require.Nil(t, say(t, h, "SAY uncounted").Result.Ticks)
	require.Nil(t, snapshotOf(ctx, t, h).TickCount)
	r, err := h.Send(ctx, session.Message{Text: "SAY unbound", MaxTicks: 1})
	require.NoError(t, err)
	answeredWell(ctx, t, h, r)
	require.True(t, slices.ContainsFunc(payloads[event.Log](events(t, h)), func(l event.Log) bool {
		return l.Level == "warn" && l.Message == "maxTicks has no effect: "+agent+" does not report its model calls"
	}), "a message's limit that can't hold is named")
	require.NoError(t, h.Close(ctx))
}

func snapshotOf(ctx context.Context, t *testing.T, h *session.Handle) session.Snapshot {
	return answerOf(t, func() (session.Snapshot, error) { return h.Snapshot(ctx) })
}

// TestLimitOfModelCalls: a session that has used up its model calls pauses in its turn,
// and continues when it may make more.
func TestLimitOfModelCalls(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Limits: limits.Limits{ModelCalls: 2}})
	// The third call does not end before it is interrupted.
	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: echo one THEN TOOL bash: echo two THEN GATE calls-" + uuid.NewString() + " THEN SAY done"})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Equal(t, "the limit of 2 model calls is reached", res.Reason)
	require.Equal(t, session.StatusPaused, snapshotOf(ctx, t, h).Status)
	sojourn(t, "configure", h.ID(), "--max-calls", "100")
	_, err = h.AwaitIdle(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, snapshotOf(ctx, t, h).Turns)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestR30Inspect: during a turn and after it, inspect has its tick, its tool calls with
// their results, and the open permission requests.
func TestR30Inspect(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk})
	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: touch one && echo first THEN TOOL bash: touch two && echo second THEN SAY done"})
	require.NoError(t, err)
	held, err := h.Send(ctx, session.Message{Text: "SAY later"})
	require.NoError(t, err)
	x := h.Execution(r)
	answerNext(ctx, t, x, nil)
	asked := inspectUntil(ctx, t, h, func(i session.Inspection) bool {
		return len(i.Pending) == 1 && i.CurrentTick != nil && *i.CurrentTick == 2 && len(i.LastTools) == 2
	})
	require.Equal(t, session.StatusWaiting, asked.Status)
	require.Equal(t, "waiting", asked.Phase)
	require.Equal(t, held.MessageID, asked.Queued[0].ID)
	require.False(t, asked.Aborted)
	require.Contains(t, asked.LastTools[0].Input, "echo first")
	require.Contains(t, *asked.LastTools[0].Output, "first")
	require.Nil(t, asked.LastTools[1].Output, "it waits for a person")
	tick, err := x.CurrentTick(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, *tick)

	require.NoError(t, x.SubmitToolResult(ctx, asked.Pending[0], session.ToolResult{Approved: true}))
	_, err = h.AwaitIdle(ctx)
	require.NoError(t, err)
	behind, err := h.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, "later", behind.LastOutput)
	require.Equal(t, 4, *behind.TickCount)
	require.Nil(t, behind.CurrentTick)
	require.Empty(t, behind.Pending)
	require.Positive(t, behind.Usage.OutputTokens)
	require.NoError(t, h.Close(ctx))
}

func inspectUntil(ctx context.Context, t *testing.T, h *session.Handle, is func(session.Inspection) bool) (i session.Inspection) {
	eventually(t, func(c *assert.CollectT) bool {
		var err error
		i, err = h.Inspect(ctx)
		require.NoError(c, err)
		return is(i)
	}, patience, tick)
	return i
}

// answerNext allows the execution's next permission request, with other arguments if
// any are given.
func answerNext(ctx context.Context, t *testing.T, x *session.Execution, arguments []byte) {
	for ev, err := range x.Events(ctx) {
		require.NoError(t, err)
		if asks, ok := ev.Payload.(event.PermissionRequested); ok {
			require.NoError(t, x.SubmitToolResult(ctx, asks.RequestID, session.ToolResult{Approved: true, ModifiedArguments: arguments}))
			return
		}
	}
	require.Fail(t, "there was no request")
}

// TestR20HandleResult: a handle iterates over its execution's own events up to its end.
// Its result has the response, the produced files, the usage, the stop reason and the
// stored end.
func TestR20HandleResult(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	first, err := h.Send(ctx, session.Message{Text: "SAY before it"})
	require.NoError(t, err)
	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: echo made THEN SAY the answer"})
	require.NoError(t, err)
	after, err := h.Send(ctx, session.Message{Text: "SAY behind it"})
	require.NoError(t, err)

	var seen []event.Event
	for ev, err := range h.Execution(r).Events(ctx) {
		require.NoError(t, err)
		seen = append(seen, ev)
	}
	require.Equal(t, []string{r.MessageID}, payloads[event.QueryStarted](seen)[0].MessageIDs)
	require.Len(t, payloads[event.QueryStarted](seen), 1, "neither %s nor %s is in it", first.MessageID, after.MessageID)
	require.IsType(t, event.QueryCompleted{}, seen[len(seen)-1].Payload, "it ends with its end")

	res, err := h.Execution(r).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, "the answer", res.Response)
	require.Equal(t, *res.Usage, res.Raw.Result.Usage)
	require.Positive(t, res.Usage.OutputTokens)
	require.NotEmpty(t, res.StopReason)
	require.Equal(t, r.ExecutionID, res.Raw.ExecutionID)
	var types []event.BlockType
	for _, b := range res.Outputs {
		types = append(types, b.Type)
	}
	require.Equal(t, event.BlockUserMessage, types[0])
	require.Contains(t, types, event.BlockToolResult)
	require.Equal(t, event.BlockAssistantText, types[len(types)-1])
	require.NoError(t, h.Close(ctx))
}

// TestR21HandleExtras: a handle is recreated from its ids, aborts its own execution and
// no other, queues messages, and answers tool calls with changed arguments.
func TestR21HandleExtras(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk})
	r, err := h.Send(ctx, session.Message{Text: "TOOL bash: touch asked && echo asked THEN SAY done"})
	require.NoError(t, err)
	again, err := spaceOf(t).Client.Get(ctx, h.ID())
	require.NoError(t, err)
	x, err := again.FindExecution(ctx, r.MessageID)
	require.NoError(t, err)
	require.Equal(t, r, x.Receipt())
	require.Equal(t, h.ID(), x.Receipt().SessionID)
	answerNext(ctx, t, x, []byte(`{"command":"touch changed && echo changed","description":"other"}`))
	res, err := x.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, res.Raw.Err())
	require.True(t, slices.ContainsFunc(res.Outputs, func(b event.Block) bool {
		return b.Type == event.BlockToolResult && string(b.Output) == `"changed"`
	}), "%v", res.Outputs)

	slow, err := h.Send(ctx, session.Message{Text: "HANG 600"})
	require.NoError(t, err)
	x, err = h.FindExecution(ctx, slow.ExecutionID)
	require.NoError(t, err)
	waits, err := x.Queue(ctx, session.Message{Text: "SAY never"})
	require.NoError(t, err)
	for ev, err := range x.Events(ctx) {
		require.NoError(t, err)
		if _, begun := ev.Payload.(event.QueryStarted); begun {
			break // detached: it continues
		}
	}
	require.Equal(t, slow.ExecutionID, inspectUntil(ctx, t, h, func(i session.Inspection) bool { return i.Status == session.StatusRunning }).CurrentExecution)
	require.NoError(t, h.Execution(waits).Abort(ctx, "not wanted"))
	require.NoError(t, x.Abort(ctx, "enough"))
	for x, reason := range map[*session.Execution]string{x: "enough", h.Execution(waits): "not wanted"} {
		res, err := x.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Raw.Outcome)
		require.Equal(t, reason, res.Raw.Reason)
		require.NoError(t, x.Abort(ctx, "again"), "it has ended")
	}
	_, err = h.FindExecution(ctx, "x999")
	require.ErrorIs(t, err, session.ErrNotFound)
	require.NoError(t, h.Close(ctx))
}

// TestR136UsagePerMessage: each message of the assistant has its own usage, from the
// stream and from the archive alike, in a record with a role.
func TestR136UsagePerMessage(t *testing.T) {
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		// An agent may write a message before its call has ended, a tenth of a second
		// late on a busy machine. The test then tries another session.
		for range 3 {
			if live, restored := callsOf(t, a.Info().Name); len(restored) == 2 {
				require.Equal(t, live, restored)
				return
			}
		}
		require.Fail(t, "the archive never has what both calls took")
	})
}

// callsOf returns the usage of the two model calls of a session, from the stream and
// from the archive.
func callsOf(t *testing.T, agent string) (live, restored map[string]session.MessageUsage) {
	ctx := testContext(t)
	h := open(t, session.Options{Agent: agent})
	res := say(t, h, "TOOL bash: echo one THEN SAY done")
	require.NoError(t, h.Close(ctx))
	conv, err := spaceOf(t).Client.Show(ctx, h.ID(), session.FromStream)
	require.NoError(t, err)
	live = usages(conv.Messages())
	var sum session.MessageUsage
	for _, m := range conv.Messages() {
		if m.Usage != nil {
			require.Equal(t, session.RoleAssistant, m.Role, "%+v", m)
			sum.Input, sum.Output = sum.Input+m.Usage.Input, sum.Output+m.Usage.Output
		}
	}
	require.Len(t, live, 2)
	require.Equal(t, session.MessageUsage{Input: res.Result.Usage.InputTokens, Output: res.Result.Usage.OutputTokens}, sum)
	conv, err = spaceOf(t).Client.Show(ctx, h.ID(), session.FromArchive)
	require.NoError(t, err)
	return live, usages(conv.Messages())
}

// usages returns the messages with a usage of their own, by id.
func usages(messages []session.MessageRecord) map[string]session.MessageUsage {
	out := map[string]session.MessageUsage{}
	for _, m := range messages {
		if m.Usage != nil {
			out[m.ID] = *m.Usage
		}
	}
	return out
}
