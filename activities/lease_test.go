package activities

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// temporalSays answers heartbeats as configured.
type temporalSays struct {
	host.Temporal
	// answer is the reply to a heartbeat; nil is an acknowledgement.
	answer atomic.Pointer[error]
	paused atomic.Bool
	looks  atomic.Int32
	beats  atomic.Int32
	// ended is the turn's end in the last heartbeat.
	ended atomic.Pointer[session.Result]
	// onEnd is called when a heartbeat reports that the turn has ended.
	onEnd func()
}

func (s *temporalSays) RecordActivityHeartbeat(_ context.Context, _ []byte, details ...any) error {
	s.beats.Add(1)
	s.ended.Store(details[0].(*contract.HeartbeatDetails).Ended)
	if s.onEnd != nil && s.ended.Load() != nil {
		s.onEnd()
	}
	if err := s.answer.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *temporalSays) SignalWorkflow(context.Context, string, string, string, any) error { return nil }

func (s *temporalSays) say(err error) { s.answer.Store(&err) }

func (s *temporalSays) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.looks.Add(1)
	return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflow.PendingActivityInfo{
		{ActivityType: &common.ActivityType{Name: contract.ActivityRunTurn}, Paused: s.paused.Load()},
	}}, nil
}

// leased returns a bench with a sandbox, short leases and a configurable Temporal.
func leased(t *testing.T, lease time.Duration) (*bench, *temporalSays) {
	t.Helper()
	says := &temporalSays{}
	b := newBench(t)
	b.temporal, b.lease = says, lease
	b.worker()
	b.begin()
	b.create()
	return b, says
}

// status returns the status of the runner of the bench's sandbox.
func (b *bench) status() (runner.Status, error) {
	return b.host.Connected(b.sandbox.ID).Conn.Status(b.t.Context())
}

// An agent in the middle of a turn is ended when no heartbeat is acknowledged for the
// length of a lease, though its worker lives and nothing fails.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	b, says := leased(t, 10*time.Second)
	done := b.aside(t.Context(), 1, b.ask(1, "words 3 tool hang"))
	b.until(b.last, is[event.BlockDelta])
	status, err := b.status()
	require.NoError(t, err)
	require.False(t, status.LeaseUntil.IsZero(), "the lease is armed before the agent is prompted")
	says.say(serviceerror.NewUnavailable("away"))
	gone := <-done
	require.ErrorContains(t, gone.err, runner.ErrClosed.Error())

	// Temporal is back: the next attempt finds the agent dead, and the one after it
	// continues.
	says.answer.Store(nil)
	_, err = b.attempt(t.Context(), 2, b.ask(1, "words 3 tool hang"))
	require.ErrorContains(t, err, errResumed.Error())
	out, err := b.attempt(t.Context(), 3, b.ask(1, "words 3 tool hang"))
	require.NoError(t, err)
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Equal(t, 1, countLines(b.heard(), "words 3 tool hang"), "the message is in the transcript: it is not asked again")
	require.Equal(t, 1, countLines(b.heard(), "Continue from where you left off"))
	b.requireOnce(1)
	require.True(t, slices.ContainsFunc(folded(b.events()).Blocks, func(k event.Block) bool {
		return k.Subtype == "resumed" && strings.Contains(*k.Message, "killed with its runner")
	}))
}

// A message that the agent had not persisted when its runner died is sent again.
func TestRunnerDiesBeforeTheMessageIsWritten(t *testing.T) {
	t.Parallel()
	b, _ := leased(t, time.Minute)
	require.NoError(t, os.WriteFile(b.file(unwritten), nil, 0o600))
	done := b.aside(t.Context(), 1, b.ask(1, "hang"))
	require.Eventually(t, func() bool { return countLines(b.heard(), `"type":"user"`) == 1 }, time.Minute, 10*time.Millisecond, "the agent has the prompt")
	status, err := b.status()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(status.Supervisor, syscall.SIGKILL))
	require.ErrorContains(t, (<-done).err, runner.ErrClosed.Error())
	require.NoError(t, os.Remove(b.file(unwritten)))
	_, err = b.attempt(t.Context(), 2, b.ask(1, "hang"))
	require.ErrorContains(t, err, errResumed.Error())
	again := b.aside(t.Context(), 3, b.ask(1, "hang"))
	require.Eventually(t, func() bool { return countLines(b.heard(), `"hang"`) == 2 || len(again) > 0 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, again)
	require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Interrupt: &contract.Interrupt{}}).Handed)
	require.NoError(t, (<-again).err)
	require.Equal(t, 1, count[event.QueryStarted](b.events()))
	require.Zero(t, countLines(b.heard(), "Continue from where"))
}

// Without an acknowledged heartbeat no agent is started, let alone prompted.
func TestNothingIsAskedUnacknowledged(t *testing.T) {
	t.Parallel()
	b, says := leased(t, time.Minute)
	says.say(serviceerror.NewUnavailable("away"))
	ctx, cancel := context.WithCancel(t.Context())
	done := b.aside(ctx, 1, b.ask(1, "words 3"))
	require.Eventually(t, func() bool { return says.beats.Load() > 2 }, time.Minute, 10*time.Millisecond)
	says.say(serviceerror.NewNotFound("timed out"))
	gone := <-done
	cancel()
	require.Error(t, gone.err)
	require.Nil(t, b.host.Connected(b.sandbox.ID))
}

// Between turns an agent stays warm, however long.
func TestNoLeaseBetweenTurns(t *testing.T) {
	t.Parallel()
	b, _ := leased(t, time.Minute)
	b.turn(b.ask(1, "words 3"))
	status, err := b.status()
	require.NoError(t, err)
	require.True(t, status.LeaseUntil.IsZero())
}

// Nor has it one when the attempt that saved the turn's end could not take it off any more: the
// next attempt does, though it only returns the result.
func TestNoLeaseBehindAnEndThatWasSaved(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*bench){"same worker": func(*bench) {}, "next worker": (*bench).worker} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := leased(t, time.Minute)
			in := b.ask(1, "words 3")
			b.turn(in)
			conn := b.host.Connected(b.sandbox.ID).Conn
			require.NoError(t, conn.Lease(t.Context(), time.Minute))
			replace(b)
			_, err := b.attempt(t.Context(), 2, in)
			require.NoError(t, err)
			found, err := b.host.Find(t.Context(), b.agent, b.sandbox.ID, b.sandbox.Epoch)
			require.NoError(t, err)
			conn, err = runner.Attach(t.Context(), found.Sandbox, found.Paths.Runner, found.Paths.Socket, runner.Token([]byte("secret"), b.sandbox.ID), b.sandbox.Epoch)
			require.NoError(t, err)
			defer conn.Close()
			status, err := conn.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, runner.AgentRunning, status.State)
			require.True(t, status.LeaseUntil.IsZero())
		})
	}
}

// A paused turn's agent continues though no attempt heartbeats for it, for as long as
// Temporal reports it as paused.
func TestPausedTurnKeepsItsAgent(t *testing.T) {
	t.Parallel()
	const lease = 8 * time.Second
	b, says := leased(t, lease)
	says.paused.Store(true)
	in := b.ask(1, "words 200 hang")
	done := b.aside(t.Context(), 1, in)
	b.until(b.last, is[event.BlockDelta])
	says.say(activity.ErrActivityPaused)
	require.ErrorContains(t, (<-done).err, "paused")
	enough := says.looks.Load() + 3*host.PausedChecks
	require.Eventually(t, func() bool { return says.looks.Load() > enough }, time.Minute, 10*time.Millisecond)
	status, err := b.status()
	require.NoError(t, err, "it lives after three leases")
	require.Equal(t, runner.AgentRunning, status.State)

	says.paused.Store(false)
	conn := b.host.Connected(b.sandbox.ID).Conn
	select {
	case <-conn.Done():
	case <-time.After(60 * time.Second):
		t.Fatal("the agent outlived its lease")
	}
}

// A host that can't reach its agents in time names them: whoever switches the machine off
// must know that they run.
func TestStopAgentsNamesThoseThatRun(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 1"))
	late, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, b.host.StopAgents(late), b.sandbox.ID)
	require.NoError(t, b.host.StopAgents(t.Context()))
	require.NoError(t, b.host.StopAgents(t.Context()), "none runs")
	b.end()
}
