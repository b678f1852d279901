package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestScheduleWhileNoWorkerRan: what a schedule starts while no worker runs is done when one
// does, and a session that takes a message each time goes on.
func TestScheduleWhileNoWorkerRan(t *testing.T) {
	inOwnNamespace(t)
	sojourn(t, "schedule", "create", "standup", "SAY what changed", "--every", "24h", "--agent", "codex", "--session", "standups", "--overlap", "buffer-one")
	sojourn(t, "schedule", "create", "nightly", "SAY a job is done", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--agent", "codex")
	again := runProgram(t, "sojourn", "", nil, "schedule", "create", "nightly", "SAY x", "--every", "1h", "--agent", "codex")
	require.Equal(t, 3, again.code, again.err)
	sojourn(t, "schedule", "trigger", "standup")
	sojourn(t, "schedule", "trigger", "nightly")
	startWorker(t)

	turns := func() int {
		h, err := spaceOf(t).Client.Get(testContext(t), "standups")
		if err != nil {
			require.ErrorIs(t, err, session.ErrNotFound)
			return 0
		}
		s, err := h.Snapshot(testContext(t))
		require.NoError(t, err)
		return s.Turns
	}
	require.Eventually(t, func() bool { return turns() == 1 }, patience, tick)
	sojourn(t, "schedule", "trigger", "standup")
	require.Eventually(t, func() bool { return turns() == 2 }, patience, tick)
	require.Equal(t, 2, strings.Count(sojourn(t, "show", "standups"), "SAY what changed"))

	var all []schedules.Entry
	require.Eventually(t, func() bool {
		sojournJSON(t, &all, "schedule", "ls")
		return len(all) == 2 && all[0].LastWorkflow != ""
	}, patience, tick)
	require.Equal(t, "nightly", all[0].ID)
	require.Equal(t, "a job of codex", all[0].What)
	require.Equal(t, []string{"0 3 * * *", "Europe/Berlin"}, all[0].When)
	require.NoError(t, spaceOf(t).Temporal.GetWorkflow(testContext(t), all[0].LastWorkflow, "").Get(testContext(t), nil), "the job is done")

	sojourn(t, "schedule", "pause", "nightly", "--note", "holidays")
	require.Eventually(t, func() bool { return strings.Contains(sojourn(t, "schedule", "ls"), "paused") }, patience, tick)
	require.Contains(t, sojourn(t, "schedule", "ls"), "holidays")
	sojourn(t, "schedule", "resume", "nightly")
	sojourn(t, "schedule", "delete", "nightly")
	gone := runProgram(t, "sojourn", "", nil, "schedule", "trigger", "nightly")
	require.Equal(t, 1, gone.code, gone.err)
	require.Contains(t, gone.err, "nightly")
}

// TestScheduleOverlaps: what is due while the last one is at work is left out, or takes its
// place: then the agent is interrupted, and asked again.
func TestScheduleOverlaps(t *testing.T) {
	skip.InShort(t, "TestScheduleWhileNoWorkerRan buffers what overlaps")
	onSharedHost(t)
	for _, rule := range []string{"skip", "cancel", "terminate"} {
		t.Run(rule, func(t *testing.T) {
			inParallel(t)
			ctx := testContext(t)
			id := rule + "-" + uuid.NewString()[:8]
			sojourn(t, "schedule", "create", id, "GATE "+id+" THEN SAY done", "--every", "24h", "--agent", "codex", "--session", id, "--overlap", rule)
			// By its rule, as when it is due: what "sojourn schedule trigger" starts is beside the rule.
			schedule := spaceOf(t).Temporal.ScheduleClient().GetHandle(ctx, id)
			require.NoError(t, schedule.Trigger(ctx, client.ScheduleTriggerOptions{}))
			require.NoError(t, spaceOf(t).Model.Waiting(ctx, id))
			h, err := spaceOf(t).Client.Get(ctx, id)
			require.NoError(t, err)
			require.NoError(t, schedule.Trigger(ctx, client.ScheduleTriggerOptions{}))
			asked := 1
			if rule == "skip" {
				require.Eventually(t, func() bool {
					d, err := schedule.Describe(ctx)
					return err == nil && d.Info.NumActionsSkippedOverlap == 1
				}, patience, tick)
			} else {
				asked = 2
				heardUntil(t, h, 0, nth[event.QueryInterrupted](1))
				heardUntil(t, h, 0, nth[event.QueryStarted](2))
			}
			spaceOf(t).Model.Open(id)
			heardUntil(t, h, 0, nth[event.QueryCompleted](1))
			awaitIdle(t, h)
			require.Len(t, payloads[event.QueryStarted](events(t, h)), asked)
			require.Equal(t, asked, strings.Count(sojourn(t, "show", id), "› GATE "+id))
			sojourn(t, "schedule", "delete", id)
			require.NoError(t, h.Close(ctx))
		})
	}
}

// TestScheduleBehindALimit: a message that its session's limit keeps from running fails with
// the limit, and waits no longer: the schedule's next one is not held up, and nothing is asked
// late when the limit is raised.
func TestScheduleBehindALimit(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	id := "limited-" + uuid.NewString()[:8]
	ask := func(text string) error {
		run, err := spaceOf(t).Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: session.TaskQueue}, schedules.MessageType, schedules.Message{
			SessionID: id, Options: session.Options{Agent: "codex", Limits: limits.Limits{Turns: 1}}, Prompt: text,
		})
		require.NoError(t, err)
		return run.Get(ctx, nil)
	}
	require.NoError(t, ask("SAY one"))
	for _, text := range []string{"SAY two", "SAY three"} {
		var failed *temporal.ApplicationError
		require.ErrorAs(t, ask(text), &failed)
		require.Equal(t, session.TypeLimit, failed.Type())
		require.Contains(t, failed.Error(), "turns")
	}
	h, err := spaceOf(t).Client.Get(ctx, id)
	require.NoError(t, err)
	_, err = h.Configure(ctx, session.Configure{Limits: &limits.Change{Turns: new(0)}})
	require.NoError(t, err)
	require.NoError(t, ask("SAY four"))
	require.Len(t, payloads[event.QueryCompleted](events(t, h)), 2)
	require.NoError(t, h.Close(ctx))
}

// TestScheduleCatchesUp: what was due while the server was away is started when it is back, each
// time once, and done when a worker runs. What is later than the schedule allows is left out.
func TestScheduleCatchesUp(t *testing.T) {
	skip.InShort(t, "TestScheduleWhileNoWorkerRan has what was due while no worker ran")
	withClaude(t)
	inParallel(t)
	s := newServer(t)
	w := &world{temporal: s, nats: s, s3: s}
	w.inhabit(t)
	env := append(w.variables(), "TEMPORAL_NAMESPACE=default")
	run := func(args ...string) {
		t.Helper()
		out := runProgram(t, "sojourn", "", env, args...)
		require.Zero(t, out.code, out.err)
	}
	const every = 2 * time.Second
	run("schedule", "create", "ticks", "SAY a tick", "--every", every.String(), "--agent", "codex", "--session", "ticking", "--overlap", "allow")
	run("schedule", "create", "strict", "SAY strict", "--every", every.String(), "--agent", "codex", "--session", "strict", "--overlap", "allow", "--catch-up", "10s")
	temporal, err := client.DialContext(testContext(t), client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Logger: silent{}})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	ran := func(id string) (info client.ScheduleInfo) {
		eventually(t, func(c *assert.CollectT) bool {
			d, err := temporal.ScheduleClient().GetHandle(testContext(t), id).Describe(testContext(t))
			require.NoError(c, err)
			info = d.Info
			return true
		}, patience, tick)
		return info
	}
	require.Eventually(t, func() bool { return ran("ticks").NumActions > 0 && ran("strict").NumActions > 0 }, patience, tick)
	latest := func(info client.ScheduleInfo) time.Time {
		return info.RecentActions[len(info.RecentActions)-1].ScheduleTime
	}

	before := ran("ticks")
	s.stop()
	away := time.Now()
	pass(t, away, 16*time.Second)
	s.start()
	back := time.Now()
	require.Eventually(t, func() bool { return latest(ran("ticks")).After(back) }, patience, tick)
	run("schedule", "pause", "ticks")
	run("schedule", "pause", "strict")

	after := ran("ticks")
	require.EqualValues(t, latest(after).Sub(latest(before))/every, after.NumActions-before.NumActions, "each time once")
	for n, a := range after.RecentActions[1:] {
		require.Equal(t, every, a.ScheduleTime.Sub(after.RecentActions[n].ScheduleTime), "each time once")
	}
	require.Positive(t, ran("strict").NumActionsMissedCatchupWindow)

	h, err := w.client.Get(testContext(t), "ticking")
	require.ErrorIs(t, err, session.ErrNotFound, "no worker has run yet")
	w.worker = startWorker(t, w.variables()...)
	require.Eventually(t, func() bool {
		if h, err = w.client.Get(testContext(t), "ticking"); err != nil {
			return false
		}
		now, err := h.Snapshot(testContext(t))
		return err == nil && now.Turns == ran("ticks").NumActions && now.Status == session.StatusIdle
	}, 2*patience, tick)
	require.NoError(t, h.Close(testContext(t)))
}
