package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestR99NothingButAMessageMakesASandbox(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	_, err := spaceOf(t).Client.Get(ctx, h.ID())
	require.NoError(t, err)
	_, err = spaceOf(t).Client.List(ctx, session.ListOptions{})
	require.NoError(t, err)
	waitRecord(t, h.ID())
	_, err = spaceOf(t).Client.Show(ctx, h.ID(), session.FromAuto)
	require.NoError(t, err)
	require.Empty(t, sandboxes(t, w))
	require.NoError(t, say(t, h, "SAY now").Err())
	require.Len(t, sandboxes(t, w), 1)
	awaitIdle(t, h)
	require.NoError(t, h.Evict(ctx))
	require.Eventually(t, func() bool { return len(sandboxes(t, w)) == 0 }, patience, tick)
	require.NoError(t, say(t, h, "RECALL").Err(), "the next message makes a new one")
	require.NoError(t, h.Close(ctx))
}

// TestR32SendMessageFlow: a message makes the sandbox that there is none of, runs and streams;
// its sender has a receipt at once, and errors as events. Messages that are sent at one time run
// one after the other, in the one sandbox.
func TestR32SendMessageFlow(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	texts := []string{"SAY one", "ERR400", "TOOL bash: echo two THEN SAY two", "SAY three"}
	receipts := make([]session.Receipt, len(texts))
	var sending errgroup.Group
	for i, text := range texts {
		sending.Go(func() (err error) {
			receipts[i], err = h.Send(ctx, session.Message{Text: text})
			return err
		})
	}
	require.NoError(t, sending.Wait())
	for i, r := range receipts {
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.Equal(t, texts[i] == "ERR400", res.Outcome == session.Failed, "%s: %+v", texts[i], res)
	}

	running, ran, made := "", []string{}, 0
	for _, ev := range events(t, h) {
		switch p := ev.Payload.(type) {
		case event.EEReady:
			made++
		case event.QueryStarted:
			require.Empty(t, running, "one at a time")
			require.Equal(t, 1, made, "it runs in the sandbox that was made for the first of them")
			running, ran = p.ExecutionID, append(ran, p.MessageIDs...)
		case event.BlockUpsert, event.BlockDelta:
			require.NotEmpty(t, running)
		case event.QueryCompleted, event.QueryFailed:
			running = ""
		}
	}
	var sent []string
	for _, r := range receipts {
		sent = append(sent, r.MessageID)
	}
	require.ElementsMatch(t, sent, ran, "each once")
	require.Equal(t, 1, made)
	require.NoError(t, h.Close(ctx))
}

func TestR100ActivationOrder(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY one").Err())
	require.NoError(t, h.Close(ctx))
	h, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY two").Err())
	var order []event.Type
	reopened := false
	for _, ev := range events(t, h) {
		if p, ok := ev.Payload.(event.SessionInitialized); ok {
			reopened = p.Reopened
		}
		switch ev.Type() {
		case "ee:creating", "transcript:written", "ee:ready", "query:started":
			if reopened {
				order = append(order, ev.Type())
			}
		}
	}
	require.Equal(t, []event.Type{"ee:creating", "transcript:written", "ee:ready", "query:started"}, order)
}

// TestR54WhatASessionDoesIsAnEvent: a session's start, end, status and faults are
// events (decision 0037), and no blocks of the conversation.
func TestR54WhatASessionDoesIsAnEvent(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY well").Err())
	require.Equal(t, session.Failed, say(t, h, "ERR400").Outcome)
	require.NoError(t, h.Close(ctx))
	h, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, h.Close(ctx))
	var runs []event.Type
	all := events(t, h)
	for _, ev := range all {
		if ev.Type() == "session:initialized" || ev.Type() == "session:closed" {
			runs = append(runs, ev.Type())
		}
	}
	require.Equal(t, []event.Type{
		"session:initialized", "session:closed", "session:initialized", "session:closed",
	}, runs)
	require.IsType(t, event.SessionInitialized{}, all[0].Payload)
	require.IsType(t, event.SessionClosed{}, all[len(all)-1].Payload)
	require.NotEmpty(t, payloads[event.Status](all))
	faults := 0
	for _, b := range fold(all).Blocks {
		require.NotEqual(t, event.BlockSystem, b.Type, b.Subtype)
		if b.Type == event.BlockError {
			faults++
		}
	}
	require.NotZero(t, faults, "an error within the conversation is a block of its own type")
}

func TestInvalidInputLeavesNoTrace(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	for name, c := range map[string]struct {
		id    string
		o     session.Options
		field string
	}{
		"unknown agent":   {"", session.Options{Agent: "nobody"}, "agent"},
		"no agent":        {"", session.Options{}, "agent"},
		"bad id":          {"a b", session.Options{Agent: "claude"}, "id"},
		"bad permission":  {"", session.Options{Agent: "claude", Permission: "maybe"}, "permission"},
		"unknown profile": {"", session.Options{Agent: "claude", Profile: "nope"}, "profile"},
	} {
		_, err := spaceOf(t).Client.Create(ctx, c.id, c.o)
		var invalid *session.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, c.field, invalid.Field, name)
	}
	h := open(t, session.Options{})
	for name, m := range map[string]session.Message{
		"empty": {Text: "  "}, "too large": {Text: string(make([]byte, session.MaxMessageBytes))},
		"bad policy": {Text: "x", WhenBusy: "later"}, "bad id": {ID: "a/b", Text: "x"},
	} {
		_, err := h.Send(ctx, m)
		var invalid *session.InvalidError
		require.True(t, errors.As(err, &invalid), name)
	}
	for _, ev := range history(t, h) {
		require.NotContains(t, ev.GetEventType().String(), "Update", "refused before history")
	}
}

// TestAReopenedSessionIsFollowed: who follows a session that was closed and has been opened
// again has what comes then, also if nothing has come yet.
func TestAReopenedSessionIsFollowed(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, h.Close(ctx))
	closed := events(t, h)
	require.NoError(t, w.stop())
	h, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	for ev, err := range h.Events(ctx, 0, session.Follow) {
		require.NoError(t, err)
		switch p := ev.Payload.(type) {
		case event.SessionClosed:
			if int(ev.Context.Seq) == len(closed) {
				startWorkerIn(t, w.dataDir)
				continue
			}
			require.Greater(t, int(ev.Context.Seq), len(closed), "it ends with the second")
			return
		case event.SessionInitialized:
			if p.Reopened {
				require.NoError(t, h.Close(ctx))
			}
		}
	}
	require.Fail(t, "the events of a session that is open have ended")
}
