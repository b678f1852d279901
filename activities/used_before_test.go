package activities

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// What a turn had used before its runner or host was lost is in its totals, its result, and
// what a limit counts.
func TestUsageBeforeALoss(t *testing.T) {
	t.Parallel()
	billed := func(ev event.Event) bool {
		p, ok := ev.Payload.(event.MetadataUpdate)
		return ok && p.Usage != nil
	}
	requireAll := func(t *testing.T, out contract.RunTurnOutput) {
		require.Equal(t, event.Usage{InputTokens: 107, OutputTokens: 13}, out.Usage)
		require.Equal(t, out.Usage, out.Result.Result.Usage)
		require.Equal(t, 2, *out.Ticks)
	}
	t.Run("runner", func(t *testing.T) {
		t.Parallel()
		b, _ := leased(t, time.Minute)
		in := b.ask(1, "bill hang")
		done := b.aside(t.Context(), 1, in)
		b.until(b.last, billed)
		status, err := b.status()
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(status.Supervisor, syscall.SIGKILL))
		require.Error(t, (<-done).err)
		_, err = b.attempt(t.Context(), 2, in)
		require.ErrorContains(t, err, errResumed.Error())
		out, err := b.attempt(t.Context(), 3, in)
		require.NoError(t, err)
		require.Equal(t, session.Completed, out.Result.Outcome)
		requireAll(t, out)
	})
	lostHost := func(t *testing.T) (*bench, contract.RunTurnInput) {
		b := withSandbox(t)
		in := b.ask(1, "bill hang")
		ctx, cancel := context.WithCancel(t.Context())
		done := b.aside(ctx, 1, in)
		b.until(b.last, billed)
		cancel()
		require.Error(t, (<-done).err)
		after := in.LastSeq
		b.create() // on the next host
		in.Sandbox, in.LastSeq, in.Message.Text = b.sandbox, b.last, "words 2"
		in.Resumes = &session.Lost{Host: "host-0", Times: 1, AfterSeq: after}
		return b, in
	}
	t.Run("host", func(t *testing.T) {
		t.Parallel()
		b, in := lostHost(t)
		out := b.turn(in)
		require.Equal(t, session.Completed, out.Result.Outcome)
		requireAll(t, out)
	})
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		b, in := lostHost(t)
		in.Limits, in.Message.Text = limits.Limits{Tokens: 10}, "words 2 hang" // it does not end by itself
		out := b.turn(in)
		require.Equal(t, session.Interrupted, out.Result.Outcome)
		require.Equal(t, session.TypeLimit, out.Result.Error.Code)
	})
}

// An execution that is not resumed reports what it had used, without what was counted when it
// was parked.
func TestUsageOfAnAbortedExecution(t *testing.T) {
	t.Parallel()
	used := func(tokens int64) event.Payload {
		return event.MetadataUpdate{Usage: &event.Usage{InputTokens: tokens}, CostUSD: new(0.5), Calls: 1}
	}
	notice := event.SystemBlock(parkedID("x2", 1), "parked", "it waits")
	started := event.QueryStarted{Query: event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}}
	for name, c := range map[string]struct {
		streamed []event.Payload
		parks    int
		want     int64
	}{
		"nothing":               {nil, 0, 0},
		"its own":               {[]event.Payload{used(1), started, used(2), used(4)}, 0, 6},
		"behind its parking":    {[]event.Payload{started, used(2), notice, used(4)}, 1, 4},
		"no output was counted": {[]event.Payload{started, used(2), notice, used(4)}, 0, 6},
		"parked before":         {[]event.Payload{started, used(2), notice}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, store := fresh(t)
			s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
			begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: "s1", Options: session.Options{Agent: "claude"}}})
			require.NoError(t, err)
			w, err := log.Writer(t.Context(), "s1", stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
			require.NoError(t, err)
			for _, p := range c.streamed {
				_, err = w.Append(t.Context(), []event.Event{fromServer(p)}, stream.Position{})
				require.NoError(t, err)
			}
			out, err := s.Emit(t.Context(), contract.EmitInput{
				SessionID: "s1", Epoch: begun.Epoch, LastSeq: begun.LastSeq, Key: "failed-x2", TakeEpoch: true,
				Events: []event.Event{fromServer(event.QueryFailed{Query: event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}, Error: &event.ErrorInfo{Message: "lost"}}})},
				Abort: &contract.Abort{
					Agent: "claude", ExecutionID: "x2", MessageID: "m2", Message: session.Message{ID: "m2", Text: "two"}, AfterSeq: begun.LastSeq, Parks: c.parks,
				},
			})
			require.NoError(t, err)
			require.Equal(t, c.want, out.Used.Usage.InputTokens)
			require.Equal(t, c.want > 0, out.Used.CostUSD != nil)
		})
	}
}
