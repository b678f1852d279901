package worker

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/modelsim"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/workflows"
)

const threeWeeks = 3 * 7 * 24 * time.Hour

// weeks is one session in Temporal's test environment, which skips the time in which no
// activity runs. The activities, their hosts, services and agents are real.
type weeks struct {
	*testing.T
	env *testsuite.TestWorkflowEnvironment
	// hosts are by id, and next is the one that makes the next sandbox. lose ends it for good.
	hosts map[string]parts
	next  string
	lose  func()
	// attempts are the latest of each turn's activity.
	attempts sync.Map
}

// startHost makes another host, whose agents ask a scripted model.
func (w *weeks) startHost(model string) (dir string) {
	w.Helper()
	dir = w.TempDir()
	var pass []string
	for _, kv := range modelsim.Environment(model) {
		name, value, _ := strings.Cut(kv, "=")
		w.Setenv(name, value)
		pass = append(pass, name)
	}
	w.Setenv("HOME", dir)
	for name, value := range servers.Get(w.T).Env {
		w.Setenv(name, value)
	}
	w.Setenv("SOJOURN_PASS_ENV", strings.Join(pass, ","))
	s, err := parseFlags([]string{"--data-dir", dir}, os.Getenv, io.Discard)
	require.NoError(w, err)
	me, err := claim(dir)
	require.NoError(w, err)
	logger := slog.New(slog.DiscardHandler)
	p, err := connect(w.Context(), s, me, logger)
	require.NoError(w, err)
	p.temporal = inTestEnvironment{p.temporal, w}
	require.NoError(w, p.makeHost(w.Context(), s, me, logger))
	w.hosts[me.id], w.next = p, me.id
	var once sync.Once
	w.lose = func() {
		once.Do(func() {
			require.NoError(w, p.host.StopAgents(context.Background()))
			require.NoError(w, p.close())
			require.NoError(w, me.lock.Close())
			require.NoError(w, os.RemoveAll(dir))
		})
	}
	w.Cleanup(w.lose)
	return dir
}

// inTestEnvironment heartbeats to the test environment: Temporal knows none of its activities.
type inTestEnvironment struct {
	client.Client
	w *weeks
}

// RecordActivityHeartbeat has a heartbeat of an attempt refused, as Temporal does, if another
// has replaced it: on a busy machine some time out.
func (c inTestEnvironment) RecordActivityHeartbeat(ctx context.Context, _ []byte, details ...any) error {
	info := activity.GetInfo(ctx)
	if latest, ok := c.w.attempts.Load(info.ActivityID); ok && latest.(int32) > info.Attempt {
		return serviceerror.NewNotFound("another attempt runs")
	}
	activity.RecordHeartbeat(ctx, details...)
	return nil
}

// register has the environment run the activities on the hosts that they are for.
func (w *weeks) register() {
	for name, f := range map[string]any{
		contract.ActivityBegin: func(ctx context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
			return w.hosts[w.next].session.Begin(ctx, in)
		},
		contract.ActivityEmit: func(ctx context.Context, in contract.EmitInput) (contract.EmitOutput, error) {
			return w.hosts[w.next].session.Emit(ctx, in)
		},
		contract.ActivityFinish: func(ctx context.Context, in contract.FinishInput) error {
			return w.hosts[w.next].session.Finish(ctx, in)
		},
		contract.ActivityCreateSandbox: func(ctx context.Context, in contract.CreateSandboxInput) (contract.CreateSandboxOutput, error) {
			return w.hosts[w.next].host.CreateSandbox(ctx, in)
		},
		contract.ActivityRunTurn: func(ctx context.Context, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
			info := activity.GetInfo(ctx)
			w.attempts.Store(info.ActivityID, info.Attempt)
			return w.hosts[in.Sandbox.Host].host.RunTurn(ctx, in)
		},
		contract.ActivityEndSandbox: func(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
			return w.hosts[in.Sandbox.Host].host.EndSandbox(ctx, in)
		},
	} {
		w.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func (w *weeks) inspect() (i session.Inspection) {
	w.Helper()
	value, err := w.env.QueryWorkflow(session.QueryInspect)
	require.NoError(w, err)
	require.NoError(w, value.Get(&i))
	return i
}

// update sends the session a request, which must not be refused.
func (w *weeks) update(name string, args ...any) {
	w.env.UpdateWorkflow(name, uuid.NewString(), &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: func(err error) { require.NoError(w, err) },
		OnComplete: func(_ any, err error) { require.NoError(w, err) },
	}, args...)
}

// TestR21AnsweredAfterThreeWeeks: a request is parked, its host is gone, three weeks pass, in
// which the session does nothing, and the answer resumes the turn on another host, with each
// agent that asks.
func TestR21AnsweredAfterThreeWeeks(t *testing.T) {
	skip.InShort(t, "TestR21AnsweredAfterWeeksInWorkflow skips the weeks, and the end-to-end TestR21AnsweredAfterWeeks has the agents")
	model := modelsim.New(modelsim.Options{})
	defer model.Close()
	address, err := model.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	for _, name := range builtin.Registry().Names() {
		a, err := builtin.Registry().Get(name)
		require.NoError(t, err)
		if a.Info().Capabilities.Approve && name != "acp" {
			t.Run(name, func(t *testing.T) { answeredAfterWeeks(t, name, address) })
		}
	}
}

func answeredAfterWeeks(t *testing.T, agent, model string) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &weeks{T: t, env: suite.NewTestWorkflowEnvironment(), hosts: map[string]parts{}}
	w.startHost(model)
	id, firstID := uuid.NewString(), w.next
	w.env.SetStartTime(time.Now())
	w.env.SetTestTimeout(4 * time.Minute)
	w.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: session.TaskQueue})
	w.env.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: session.WorkflowType})
	w.register()

	var second string
	w.env.RegisterDelayedCallback(func() {
		w.update(session.UpdateSend, session.Message{ID: "m1", Text: "TOOL bash: touch allowed.txt"})
	}, time.Second)
	parked := 0
	w.env.RegisterDelayedCallback(func() {
		i := w.inspect()
		require.Len(t, i.Pending, 1)
		require.NotNil(t, i.Parked)
		require.Nil(t, i.Sandbox)
		parked = i.HistoryLength
	}, time.Hour)
	w.env.RegisterDelayedCallback(func() {
		i := w.inspect()
		require.Equal(t, parked, i.HistoryLength, "to wait costs nothing")
		w.lose()
		second = w.startHost(model)
		w.update(session.UpdateRespond, session.RespondRequest{RequestID: i.Pending[0], Allow: true, By: "anna"})
	}, threeWeeks)
	w.env.RegisterDelayedCallback(func() {
		i := w.inspect()
		require.Equal(t, session.StatusIdle, i.Status)
		require.Equal(t, w.next, i.Sandbox.Host)
		require.NotEqual(t, firstID, w.next)
		found, err := filepath.Glob(filepath.Join(second, "sandboxes", id+"-*", "workspace", "allowed.txt"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		w.update(session.UpdateClose)
	}, threeWeeks+10*time.Minute)
	w.env.ExecuteWorkflow(session.WorkflowType, session.Input{
		SessionID: id, CreatedAt: time.Now(), Options: session.Options{Agent: agent, Permission: permission.Ask, Park: 1000},
	})
	require.NoError(t, w.env.GetWorkflowError())
	var out session.Output
	require.NoError(t, w.env.GetWorkflowResult(&out))
	require.Equal(t, session.Completed, out.Outcome)

	live, err := w.hosts[w.next].jobs.Sessions.Show(t.Context(), id, session.FromStream)
	require.NoError(t, err)
	restored, err := w.hosts[w.next].jobs.Sessions.Show(t.Context(), id, session.FromArchive)
	require.NoError(t, err)
	found, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, found)
}
