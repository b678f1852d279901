package activities

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// numbersFrom returns the agent's output for "words": numbered words.
func numbersFrom(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d ", first+i)
	}
	return b.String()
}

// requireOnce checks the invariants under any number of attempts: the stream has every
// event of the agent once, deltas make up the texts, and each turn has one start and one
// end.
func (b *bench) requireOnce(turns int) []event.Event {
	b.t.Helper()
	events, created, texts, whole := b.events(), map[string]int{}, map[string]string{}, map[string]int{}
	for _, ev := range events {
		switch p := ev.Payload.(type) {
		case event.BlockUpsert:
			if p.Block.Status == event.StatusComplete {
				whole[p.Block.ID]++
			} else {
				created[p.Block.ID]++
			}
			if c := p.Block.Content; c != nil && p.Block.Type == event.BlockAssistantText && p.Block.Status == event.StatusComplete {
				require.Equal(b.t, *c, texts[p.Block.ID], "the deltas are the text")
			}
		case event.BlockDelta:
			require.NotZero(b.t, created[p.BlockID], "a delta follows its block")
			texts[p.BlockID] += p.Delta
		}
	}
	for id, n := range created {
		require.LessOrEqual(b.t, n, 2, "block %s", id)
	}
	for id, n := range whole {
		require.Equal(b.t, 1, n, "block %s is completed once", id)
	}
	require.Equal(b.t, turns, count[event.QueryStarted](events))
	require.Equal(b.t, turns, count[event.QueryCompleted](events)+count[event.QueryFailed](events)+count[event.QueryInterrupted](events))
	return events
}

func TestSessionOnAHost(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	first := b.turn(b.ask(1, "words 5 tool words 3"))
	require.Equal(t, session.Completed, first.Result.Outcome)
	require.Equal(t, numbersFrom(7, 3), first.Result.Result.Response)
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 10}, first.Usage)
	require.InDelta(t, 0.001, *first.CostUSD, 1e-9)
	require.NotEmpty(t, first.LastBlockID)
	require.False(t, first.AgentExited)

	in := b.ask(2, "words 2")
	in.Anchor = first.LastBlockID
	second := b.turn(in)
	require.InDelta(t, 0.001, *second.CostUSD, 1e-9, "a turn's own cost")
	b.requireOnce(2)
	require.Equal(t, 2, countLines(b.heard(), `"type":"user"`))
	require.Equal(t, 1, countLines(b.heard(), `"initialize"`), "once per process")

	files, err := filepath.Glob(b.file(".claude", "projects", "*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	want, err := os.ReadFile(files[0])
	require.NoError(t, err)
	b.end()
	requireArchived(t, b, string(want))

	_, err = b.provider.Open(t.Context(), b.sandbox.ID)
	require.ErrorIs(t, err, sandbox.ErrNotFound)
	require.NoFileExists(t, b.host.Checkpoints.Path(b.sandbox.ID))
	b.end() // again: it does not exist, as requested
	require.Equal(t, 1, count[event.EETerminated](b.events()))
}

func requireArchived(t *testing.T, b *bench, want string) {
	t.Helper()
	for f, err := range b.store.RestoreFiles(t.Context(), b.agent.SessionID, b.sandbox.Epoch) {
		require.NoError(t, err)
		body, err := f.Open()
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, want, string(got))
	}
}

// Attempts that are cut off anywhere, followed by the same worker or a new one, leave what
// one undisturbed attempt would have left.
func TestAttemptsAtAnyPoint(t *testing.T) {
	t.Parallel()
	const said = 40
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			b := withSandbox(t)
			first := 1
			for n := 1; n <= 2; n++ {
				in := b.ask(n, fmt.Sprintf("words %d tool tool words %d", said, said))
				out := b.insist(r, in)
				require.Equal(t, session.Completed, out.Result.Outcome)
				require.Equal(t, numbersFrom(first+said+2, said), out.Result.Result.Response)
				require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 10}, out.Usage)
				require.InDelta(t, 0.001, *out.CostUSD, 1e-9)
				b.last, first = out.LastSeq, first+2*said+2
				events := b.requireOnce(n)
				require.Equal(t, 2*said*n, count[event.BlockDelta](events))
				require.Equal(t, n, countLines(b.heard(), `"type":"user"`), "a prompt is written once")
			}
			require.Equal(t, 1, countLines(b.heard(), `"initialize"`))
			// user, text, tool, result, tool, result, text
			require.Len(t, folded(b.events()).Blocks, 2*7)
		})
	}
}

func folded(events []event.Event) reducer.State {
	fold := reducer.NewBuilder(reducer.State{})
	for _, ev := range events {
		fold.Add(ev)
	}
	return fold.State()
}

// insist attempts a turn until it is done; each attempt is cut off after some more events.
func (b *bench) insist(r *rand.Rand, in contract.RunTurnInput) contract.RunTurnOutput {
	b.t.Helper()
	for attempt := 1; ; attempt++ {
		tail, err := b.log.Tail(b.t.Context(), b.agent.SessionID)
		require.NoError(b.t, err)
		ctx, cancel := context.WithCancel(b.t.Context())
		done := make(chan struct{})
		more := 1 + r.IntN(40)
		go func() {
			defer close(done)
			b.cutOff(ctx, cancel, tail.LastSeq, more)
		}()
		out, err := b.attempt(ctx, attempt, in)
		cut := ctx.Err() != nil
		cancel()
		<-done
		if err == nil {
			return out
		}
		require.True(b.t, cut, "attempt %d: %v", attempt, err)
		if r.IntN(2) == 0 {
			b.worker()
		}
	}
}

func (b *bench) cutOff(ctx context.Context, cancel func(), after uint64, more int) {
	for _, err := range b.log.Read(ctx, b.agent.SessionID, after, stream.ReadOptions{Follow: true}) {
		if more--; more == 0 || err != nil {
			cancel()
			return
		}
	}
}

// An attempt that Temporal has timed out, and that still runs, is fenced by the next
// one; the stream does not show that there were two.
func TestAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	in := b.ask(1, "words 300 ask") // so that the turn can't end before there are two
	first := b.aside(t.Context(), 1, in)
	b.until(b.last, is[event.BlockDelta])
	second := b.aside(t.Context(), 2, in)
	b.until(b.last, func(ev event.Event) bool {
		began, ok := ev.Payload.(event.Status)
		return ok && began.Attempt == attemptOf(in.Turn, 2)
	})
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)
	b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true}})
	over, gone := <-second, <-first // which notices with its next write, at the latest now
	require.NoError(t, over.err)
	require.Error(t, gone.err)
	require.Equal(t, numbersFrom(1, 300), over.out.Result.Result.Response)
	require.Equal(t, 300, count[event.BlockDelta](b.requireOnce(1)))
	require.Equal(t, 1, countLines(b.heard(), `"type":"user"`))
}

// An attempt after one that did everything but return has the same result.
func TestAttemptAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 3")
	first := b.turn(in)
	before := len(b.events())
	b.worker()
	again, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, first.Result, again.Result)
	require.Equal(t, first.Usage, again.Usage)
	require.Equal(t, first.LastBlockID, again.LastBlockID)
	require.Len(t, b.events(), before, "nothing is written for it")

	// The same without the checkpoint: the worker died a moment earlier.
	require.NoError(t, b.host.Checkpoints.Remove(b.sandbox.ID))
	third, err := b.attempt(t.Context(), 3, in)
	require.NoError(t, err)
	require.Equal(t, first.Result.Outcome, third.Result.Outcome)
	require.Equal(t, first.Result.Result.Response, third.Result.Result.Response)
	require.Equal(t, first.Usage, third.Usage)
	require.Equal(t, first.LastBlockID, third.LastBlockID)
	b.requireOnce(1)
	require.Equal(t, 1, countLines(b.heard(), `"type":"user"`))
}

func (b *bench) control(in contract.ControlInput) contract.ControlOutput {
	b.t.Helper()
	in.SessionID = b.agent.SessionID
	out, err := b.host.SendControl(b.t.Context(), in)
	require.NoError(b.t, err)
	return out
}

// Controls may be sent again: an emission is once in the stream and once in the archive, in
// its place; the agent is interrupted once.
func TestControlTwice(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	done := b.aside(t.Context(), 1, b.ask(1, "words 3 tool hang"))
	b.until(b.last, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.BlockUpsert)
		return ok && p.Block.Type == event.BlockToolResult
	})
	note := fromServer(event.BlockUpsert{Block: event.Block{
		ID: "note", Type: event.BlockSystem, Status: event.StatusComplete, Source: event.SourceServer, Message: new("noted"),
	}})
	for range 2 {
		require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Events: []event.Event{note}}).Handed)
		require.False(t, b.control(contract.ControlInput{ExecutionID: "x7", ID: "k2", Events: []event.Event{note}}).Handed, "another execution's")
	}
	for range 2 {
		b.control(contract.ControlInput{ExecutionID: "x1", ID: "i1", Interrupt: &contract.Interrupt{Reason: "enough"}})
	}
	end := <-done
	require.NoError(t, end.err)
	require.Equal(t, session.Interrupted, end.out.Result.Outcome)
	require.Equal(t, "enough", end.out.Result.Reason)
	events := b.requireOnce(1)
	notes := 0
	for _, ev := range events {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.ID == "note" {
			notes++
		}
	}
	require.Equal(t, 1, notes)
	require.Equal(t, 1, countLines(b.heard(), `"interrupt"`))
	entries, err := b.store.ServerEntries(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].Anchor.AfterBlockID, "toolu_")
	require.False(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k3", Events: []event.Event{note}}).Handed, "the turn is over")
}

// The agent's death ends the turn, also for a later attempt; what it streamed and did not
// persist is marked as lost, and the failure is the last block.
func TestAgentDies(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprint("attempts ", attempts), func(t *testing.T) {
			t.Parallel()
			b := withSandbox(t)
			in := b.ask(1, "words 2 words 60 gate die")
			for n := 1; n < attempts; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				done := b.aside(ctx, n, in)
				b.until(b.last, is[event.BlockDelta])
				cancel()
				require.Error(t, (<-done).err)
				b.worker()
			}
			b.openGate()
			out, err := b.attempt(t.Context(), attempts, in)
			require.NoError(t, err)
			require.Equal(t, session.Failed, out.Result.Outcome)
			require.Equal(t, session.TypeAgentFailed, out.Result.Error.Code)
			require.True(t, out.AgentExited)
			events := b.requireOnce(1)
			require.Equal(t, 1, count[event.QueryFailed](events))
			entries, err := b.store.ServerEntries(t.Context(), b.agent.SessionID)
			require.NoError(t, err)
			require.Len(t, entries, 2)
			lost := entries[0].Event.Payload.(event.BlockUpsert).Block
			require.True(t, reducer.Lost(lost) && (lost.Content != nil && *lost.Content != ""), "the text that was seen, whole")
			require.Equal(t, "sojourn-m1-failed", entries[1].Event.Payload.(event.BlockUpsert).Block.ID)
			for _, e := range entries {
				require.True(t, strings.HasSuffix(e.Anchor.AfterBlockID, ":0"), "not after the lost text: %s", e.Anchor.AfterBlockID)
			}
			require.Equal(t, "sojourn-m1-failed", out.LastBlockID)

			b.last = out.LastSeq
			next := b.turn(b.ask(2, "words 2"))
			require.Equal(t, session.Completed, next.Result.Outcome)
		})
	}
}

// A permission that is changed during a turn holds for later attempts.
func TestPolicyOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = adapters.PermissionAllow
	b.turn(b.ask(1, "words 1"))
	in := b.ask(2, "words 2 gate ask")
	ctx, cancel := context.WithCancel(t.Context())
	done := b.aside(ctx, 1, in)
	b.until(b.last, is[event.BlockDelta])
	require.True(t, b.control(contract.ControlInput{ExecutionID: "x2", ID: "c1", Options: &contract.Options{Permission: adapters.PermissionDeny}}).Handed)
	cancel()
	require.Error(t, (<-done).err)
	b.worker()
	b.openGate()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Equal(t, 1, countLines(b.heard(), `"behavior":"deny"`))
	require.Zero(t, countLines(b.heard(), `"behavior":"allow"`))
	require.Zero(t, countLines(b.heard(), "bypassPermissions"), "nothing resets it")
}

// A process that was started to run everything is started anew for a turn that has to ask: it may
// have loaded from the workspace what runs unasked. One that was started to ask is not.
func TestTightenedAgentIsStartedAnew(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	starts := func(p adapters.Permission, turn int) int {
		b.agent.Permission = p
		require.Equal(t, session.Completed, b.turn(b.ask(turn, "words 1")).Result.Outcome)
		status, err := b.status()
		require.NoError(t, err)
		return status.RestartCount
	}
	require.Equal(t, 0, starts(adapters.PermissionAllow, 1))
	require.Equal(t, 1, starts(adapters.PermissionAsk, 2))
	require.Equal(t, 1, starts(adapters.PermissionAllow, 3))
	require.Equal(t, 1, starts(adapters.PermissionDeny, 4))
}

// A running turn reports what it has used so far if a control asks for it, and only then.
func TestARunningTurnReportsItsUsage(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	done := b.aside(t.Context(), 1, b.ask(1, "bill words 1 gate words 1"))
	require.Eventually(t, func() bool {
		out := b.control(contract.ControlInput{ExecutionID: "x1", ID: "u1", Usage: true})
		return out.Handed && out.Usage.InputTokens == 7 && out.Usage.OutputTokens == 3
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, contract.ControlOutput{Handed: true}, b.control(contract.ControlInput{ExecutionID: "x1", ID: "u2"}))
	b.openGate()
	require.NoError(t, (<-done).err)
}

// An interrupt that was handed over holds for later attempts: they wait no longer for a
// deaf agent, and report why it was stopped.
func TestInterruptOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 200 hang")
	ctx, cancel := context.WithCancel(t.Context())
	done := b.aside(ctx, 1, in)
	b.until(b.last, is[event.BlockDelta])
	require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "i1", Interrupt: &contract.Interrupt{Reason: "enough"}}).Handed)
	cancel()
	require.Error(t, (<-done).err)
	b.worker()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, out.Result.Outcome)
	require.Equal(t, "enough", out.Result.Reason)
	require.Equal(t, 1, countLines(b.heard(), `"interrupt"`))
}

// An interrupt that still waited for the agent when its attempt died is sent by the next one.
func TestInterruptThatWaitedIsSentLater(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 3 hang")
	ctx, cancel := context.WithCancel(t.Context())
	done := b.aside(ctx, 1, in)
	b.until(b.last, is[event.BlockDelta])
	cancel()
	require.Error(t, (<-done).err)
	saved, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	saved.Open.Interrupt, saved.Open.InterruptID, saved.Open.InterruptedAt = &contract.Interrupt{Reason: "enough"}, "i1", time.Now()
	require.NoError(t, b.host.Checkpoints.Save(b.sandbox.ID, saved))
	b.worker()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, out.Result.Outcome)
	require.False(t, out.AgentExited, "it was asked, and not killed")
	require.Equal(t, 1, countLines(b.heard(), `"interrupt"`))
}

// A turn whose end was streamed as completed stays so, also if the stream was deleted with
// it, the worker died before it saved more, and an interrupt was under way.
func TestCompletedStaysCompleted(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	before, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	in := b.ask(2, "words 3")
	done := b.aside(t.Context(), 1, in)
	b.until(b.last, is[event.QueryCompleted])
	saved, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	require.True(t, saved.Ended == "x2" || saved.Open.Completed, "it is saved before it is streamed")
	require.NoError(t, (<-done).err)

	before.Open = &host.Execution{
		ExecutionID: "x2", MessageID: "m2", Completed: true, Interrupt: &contract.Interrupt{Reason: "enough"}, InterruptedAt: time.Now(),
	}
	require.NoError(t, b.host.Checkpoints.Save(b.sandbox.ID, before))
	require.NoError(t, b.log.Purge(t.Context(), b.agent.SessionID))
	b.worker()
	out, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, session.Completed, out.Result.Outcome)
	ends := 0
	require.NoError(t, eachAfter(t.Context(), b.log, b.agent.SessionID, in.LastSeq, func(ev event.Event) bool {
		if res, ended := session.ResultOf(ev, "m2"); ended {
			require.Equal(t, session.Completed, res.Outcome)
			ends++
		}
		return true
	}))
	require.Equal(t, 1, ends, "in the stream that was made anew")
}

// A worker that dies between the start of an agent and its opening leaves the opening to
// the next attempt.
func TestOpeningAfterADeath(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	a, err := b.host.Prepare(t.Context(), b.agent, b.sandbox.ID, b.sandbox.Epoch)
	require.NoError(t, err)
	require.NoError(t, b.host.StartAgent(t.Context(), a))
	b.worker()
	b.turn(b.ask(1, "words 1"))
	heard := b.heard()
	require.Equal(t, 1, countLines(heard, `"initialize"`))
	require.Contains(t, heard[0], `"initialize"`, "before the prompt")
}

// A sandbox is ended, and archived, even if the agent's program and the profile are
// missing.
func TestEndWithoutProgram(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	require.NoError(t, os.Remove(b.program))
	b.agent.Profile = "gone"
	b.worker()
	b.end()
	infos, err := b.store.Transcripts(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	require.NotEmpty(t, infos)
}
