package e2e

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// deployment is the worker deployment of these tests.
const deployment = "agents"

// startBuild starts a worker, and with it a host, of a build of the deployment.
func startBuild(t *testing.T, build, versioning string) {
	t.Helper()
	startWorker(t, "TEMPORAL_DEPLOYMENT_NAME="+deployment, "TEMPORAL_WORKER_BUILD_ID="+build, "SOJOURN_VERSIONING="+versioning)
}

// makeCurrent makes a build the current one, once Temporal has heard of its workers. Temporal
// routes by it some time later.
func makeCurrent(t *testing.T, build string) {
	t.Helper()
	d := spaceOf(t).Temporal.WorkerDeploymentClient().GetHandle(deployment)
	var err error
	require.Eventually(t, func() bool {
		_, err = d.SetCurrentVersion(testContext(t), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
		return err == nil
	}, patience, tick, "%s is current: %v", build, err)
}

// buildOf returns the build that ran the last step of a session's workflow, and the run.
func buildOf(t *testing.T, h *session.Handle) (build, run string) {
	t.Helper()
	d, err := spaceOf(t).Temporal.DescribeWorkflowExecution(testContext(t), h.ID(), "")
	require.NoError(t, err)
	info := d.GetWorkflowExecutionInfo()
	return info.GetVersioningInfo().GetDeploymentVersion().GetBuildId(), info.GetExecution().GetRunId()
}

// TestUpgradeOfAPinnedSession: another build becomes the current one while a session is in
// the middle of a turn. The turn ends on its build, and with the next message the session
// moves; its agent and its sandbox stay.
func TestUpgradeOfAPinnedSession(t *testing.T) { upgradeInATurn(t, "pinned", "b1") }

// TestUpgradeInATurn: a session that upgrades by itself moves in the middle of a turn.
func TestUpgradeInATurn(t *testing.T) {
	skip.InShort(t, "a pinned session moves too, between its turns")
	withClaude(t)
	upgradeInATurn(t, "auto-upgrade", "b2")
}

func upgradeInATurn(t *testing.T, versioning, inTurn string) {
	t.Helper()
	inOwnNamespace(t)
	ctx := testContext(t)
	startBuild(t, "b1", versioning)
	makeCurrent(t, "b1")
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY remember the word clementine").Err())
	gate := "upgrade-" + uuid.NewString()
	first, err := h.Send(ctx, session.Message{Text: "GATE " + gate + " THEN SAY the first answer"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	_, began := buildOf(t, h)
	before, err := h.Snapshot(ctx)
	require.NoError(t, err)

	startBuild(t, "b2", versioning)
	makeCurrent(t, "b2")
	other := open(t, session.Options{})
	eventually(t, func(c *assert.CollectT) bool {
		require.NoError(c, say(t, other, "SAY hello").Err())
		build, _ := buildOf(t, other)
		return build == "b2"
	}, patience, tick, "a new session is on the new build, or moves to it")
	second, err := h.Send(ctx, session.Message{Text: "RECALL"})
	require.NoError(t, err)
	var build, run string
	eventually(t, func(c *assert.CollectT) bool {
		title := "a step in the middle of the turn"
		_, err := h.Configure(ctx, session.Configure{Title: &title})
		require.NoError(c, err)
		build, run = buildOf(t, h)
		return build == inTurn
	}, patience, tick, "in the middle of the turn")
	require.Equal(t, began, run)
	spaceOf(t).Model.Open(gate)
	res, err := h.Wait(ctx, first)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Equal(t, "the first answer", res.Result.Response)
	res, err = h.Wait(ctx, second)
	require.NoError(t, err)
	require.Contains(t, res.Result.Response, "clementine")

	turns := 3
	eventually(t, func(c *assert.CollectT) bool {
		if build, run = buildOf(t, h); build != "b2" {
			require.NoError(c, say(t, h, "SAY again").Err())
			turns++
		}
		return build == "b2"
	}, patience, tick)
	require.Equal(t, versioning == "pinned", run != began, "a pinned session has continued as new")
	after, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, before.Sandbox.ID, after.Sandbox.ID, "its sandbox stays where it is")
	require.Equal(t, turns, after.Turns)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

// TestDoctorKnowsTheCurrentBuild: workers of a build that is not the current one run no new
// session, and doctor says so.
func TestDoctorKnowsTheCurrentBuild(t *testing.T) {
	inOwnNamespace(t)
	startBuild(t, "b1", "pinned")
	says := func(line string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(program(t, "doctor").out, line) }, patience, tick, line)
	}
	says("new sessions are for unversioned workers, and there are workers of build b1 of deployment agents only")
	makeCurrent(t, "b1")
	says("; build b1 of deployment agents is current")
}
