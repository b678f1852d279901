package activities

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestMessageToAnAgentThatHasJustEnded: a message that arrives when the agent's process has
// exited, and its children have not, goes to the next process, once.
func TestMessageToAnAgentThatHasJustEnded(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 3"))
	endHalf, endWhole := b.halfEnded()
	endHalf()
	in := b.ask(2, "words 3")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.attempt(ctx, 1, in)
	require.Error(t, err)
	require.ErrorContains(t, err, runner.ErrExited.Error())
	endWhole()
	for attempt := 2; ; attempt++ {
		out, err := b.attempt(t.Context(), attempt, in)
		if err != nil {
			require.ErrorContains(t, err, runner.ErrExited.Error())
			continue
		}
		require.Equal(t, session.Completed, out.Result.Outcome, "%v", out.Result.Error)
		break
	}
	require.Equal(t, 2, countLines(b.heard(), `"type":"user"`), "each message is written once")
	require.Equal(t, 2, count[event.QueryStarted](b.events()))
	require.Equal(t, 2, count[event.QueryCompleted](b.events()))
}

// TestAnswerToAnAgentThatHasJustEnded: a turn whose agent exited before it was answered
// fails with that type, in the running attempt.
func TestAnswerToAnAgentThatHasJustEnded(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	done := b.aside(t.Context(), 1, b.ask(1, "ask"))
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)
	endHalf, endWhole := b.halfEnded()
	endHalf()
	b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true}})
	endWhole()
	over := <-done
	require.NoError(t, over.err)
	require.Equal(t, session.Failed, over.out.Result.Outcome)
	require.Contains(t, over.out.Result.Error.Message, "signal killed")
}

// TestAgentThatEndsAtOnce: an agent that exits before it can be sent anything fails its
// turn with a type, and is not restarted forever.
func TestAgentThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	require.NoError(t, os.WriteFile(b.file(stillborn), nil, 0o600))
	for n := 1; n <= 5; n++ {
		out := b.turn(b.ask(n, "words 3"))
		require.Equal(t, session.Failed, out.Result.Outcome)
		require.Equal(t, session.TypeAgentFailed, out.Result.Error.Code)
		require.Contains(t, out.Result.Error.Message, "exit 3")
	}
	require.NoError(t, os.Remove(b.file(stillborn)))
	require.Equal(t, session.Completed, b.turn(b.ask(6, "words 3")).Result.Outcome)
}

// TestHalfALineOfAKilledAgent: what a kill has left of a line is set aside before the next
// process writes behind it, and is not archived.
func TestHalfALineOfAKilledAgent(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 3"))
	status, err := b.status()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(status.Pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		status, err := b.status()
		return err != nil || status.State != runner.AgentRunning
	}, time.Minute, 10*time.Millisecond)
	files, err := filepath.Glob(b.file(".claude", "projects", "*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	const half = `{"type":"assistant","timestamp":"2026-0`
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(half)
	require.NoError(t, errors.Join(err, f.Close()))

	require.Equal(t, session.Completed, b.turn(b.ask(2, "words 3")).Result.Outcome)
	aside, err := os.ReadFile(files[0] + adapters.TornSuffix)
	require.NoError(t, err)
	require.Equal(t, half, string(aside))
	archived, err := b.store.ReadTranscript(t.Context(), b.agent.SessionID, event.Main)
	require.NoError(t, err)
	data, err := io.ReadAll(archived)
	require.NoError(t, errors.Join(err, archived.Close()))
	written, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, string(written), string(data))
	require.NotContains(t, string(data), half)
}

// halfEnded returns what kills the agent's process and holds its children, and what
// releases them: the first process of the namespace is stopped meanwhile.
func (b *bench) halfEnded() (half, whole func()) {
	b.t.Helper()
	status, err := b.status()
	require.NoError(b.t, err)
	if !status.Isolation.PID {
		skip.Without(b.t, "namespaces: "+status.Isolation.Reason)
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(status.Pid) + "/stat")
	require.NoError(b.t, err)
	_, behindName, _ := strings.Cut(string(raw), ") ")
	init, err := strconv.Atoi(strings.Fields(behindName)[1])
	require.NoError(b.t, err)
	whole = func() { _ = syscall.Kill(init, syscall.SIGCONT) } // it may run twice
	b.t.Cleanup(whole)
	return func() {
		require.NoError(b.t, syscall.Kill(init, syscall.SIGSTOP))
		b.awaitState(init, "T")
		require.NoError(b.t, syscall.Kill(status.Pid, syscall.SIGKILL))
		b.awaitState(status.Pid, "Z")
	}, whole
}

// awaitState waits until all threads of a process have a state: T is stopped, Z is dead and
// not reaped.
func (b *bench) awaitState(pid int, state string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			raw, err := os.ReadFile(path)
			return err != nil || !strings.Contains(string(raw), ") "+state+" ")
		})
	}, 10*time.Second, time.Millisecond, "process %d has the state %s", pid, state)
}
