package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// A queued message can be changed, moved and cancelled.
func TestAWaitingMessageIsEdited(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var moved *answer
	p.then(
		func() { p.send("m0", "HOLD first") },
		func() {
			for _, id := range []string{"m1", "m2", "m3"} {
				p.send(id, "text of "+id)
			}
		},
		func() {
			moved = p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Place: ptr(0)})
			p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m1", Message: &session.Message{Text: "changed"}})
			p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m2", Cancel: true, Reason: "not any more"})
		},
		func() {
			require.Equal(t, []session.Message{{ID: "m3", Text: "text of m3"}, {ID: "m1", Text: "changed"}}, p.snapshot().Queued)
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	p.run()
	require.Len(t, valueOf[session.Snapshot](t, moved).Queued, 3)
	require.Equal(t, []string{"HOLD first", "text of m3", "changed"}, p.w.prompts("s1"))
	require.Equal(t, session.Interrupted, p.w.results("s1")["m2"].Outcome, "its waiters get its end")
	require.Equal(t, "not any more", p.w.results("s1")["m2"].Reason)
}

func TestWhatDoesNotWaitIsNotEdited(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	refused := map[string]*answer{}
	before := -1
	p.then(
		func() { p.send("running", "HOLD first") },
		func() { p.send("waits", "second") },
		func() {
			for name, e := range map[string]session.QueueEdit{
				"messageId":    {Cancel: true},
				"runs already": {MessageID: "running", Cancel: true},
				"unknown":      {MessageID: "nobody", Cancel: true},
				"edit":         {MessageID: "waits"},
				"two at once":  {MessageID: "waits", Cancel: true, Place: ptr(0)},
				"place":        {MessageID: "waits", Place: &before},
				"message.text": {MessageID: "waits", Message: &session.Message{Text: " "}},
			} {
				refused[name] = p.update(session.UpdateEditQueue, e)
			}
		},
		func() {
			require.Equal(t, []session.Message{{ID: "waits", Text: "second"}}, p.snapshot().Queued)
			require.NoError(t, p.w.letGo("s1"))
		},
	)
	p.run()
	for name, a := range refused {
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(a.refused), &invalid, name)
		require.NotEmpty(t, invalid.Want, name)
	}
	require.ErrorContains(t, refused["runs already"].refused, `"running" does not wait`)
}

// An interrupt may clear the queue, and returns it to its caller.
func TestAnInterruptClearsTheQueue(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var got *answer
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "m3", Text: "three"}) },
		func() {
			got = p.update(session.UpdateInterrupt, session.InterruptRequest{
				Reason: "stop", ClearQueue: true, Message: &session.Message{ID: "next", Text: "instead"},
			})
		},
	)
	p.run()
	reply := valueOf[session.InterruptReply](t, got)
	require.True(t, reply.Running)
	require.Equal(t, []session.Message{{ID: "m2", Text: "two"}, {ID: "m3", Text: "three"}}, reply.Cancelled)
	require.Equal(t, []string{"HOLD one", "instead"}, p.w.prompts("s1"))
	for _, id := range []string{"m1", "m2", "m3"} {
		require.Equal(t, session.Interrupted, p.w.results("s1")[id].Outcome, id)
	}
}

// Reusing another message's id is a conflict, by update and by signal.
func TestAnIDOfAnotherMessageIsAConflict(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var first, same, other *answer
	p.then(
		func() { first = p.send("m1", "one") },
		func() { same = p.send("m1", "one") },
		func() { other = p.send("m1", "two") },
		func() { p.env.SignalWorkflow(session.SignalMessage, session.Message{ID: "m1", Text: "three"}) },
	)
	p.after(time.Minute, func() { require.Equal(t, []string{"one"}, p.w.prompts("s1")) })
	p.run()
	require.Equal(t, valueOf[session.Receipt](t, first), valueOf[session.Receipt](t, same))
	require.ErrorIs(t, session.FromTemporal(other.refused), session.ErrConflict)
	var codes []string
	for _, s := range p.w.stream {
		if e, is := s.payload.(event.Error); is {
			codes = append(codes, e.Code+" "+e.Field)
		}
	}
	require.Equal(t, []string{session.TypeConflict + " message.id"}, codes)
}

// A held message does not keep the others from running, wherever in the queue it is.
func TestAHeldMessageDoesNotHoldOthers(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.send("m2", "two") },
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "m3", Text: "three"}) },
		func() { p.update(session.UpdateEditQueue, session.QueueEdit{MessageID: "m3", Place: ptr(0)}) },
		func() { p.letGo() },
		func() {
			require.Equal(t, []session.Message{{ID: "m3", Text: "three"}}, p.snapshot().Queued)
			require.Equal(t, session.StatusIdle, p.snapshot().Status)
			require.Equal(t, []string{"HOLD one", "two"}, p.w.prompts("s1"))
			p.send("m4", "four")
		},
	)
	p.run()
	require.Equal(t, []string{"HOLD one", "two", "three", "four"}, p.w.prompts("s1"))
}

// A message that is only queued does not go first, whatever it says of a busy session.
func TestAHeldMessageDoesNotGoFirst(t *testing.T) {
	t.Parallel()
	held := session.Message{ID: "m3", Text: "three", WhenBusy: session.BusyInterrupt}
	for name, queue := range map[string]func(p *play){
		"interrupt": func(p *play) { p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &held}) },
		"signal":    func(p *play) { p.env.SignalWorkflow(session.SignalQueue, held) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, limited(limits.Limits{Turns: 1}))
			p.then(func() { p.send("m1", "one") }, func() { p.send("m2", "two") }, func() { queue(p) }, func() {
				require.Equal(t, session.StatusPaused, p.snapshot().Status)
				require.Equal(t, []session.Message{{ID: "m2", Text: "two"}, held}, p.snapshot().Queued)
				p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{Turns: ptr(0)}})
			}, func() {
				require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
				require.Equal(t, []session.Message{held}, p.snapshot().Queued)
			})
			p.run()
		})
	}
}
