package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func sharedSpawn(id, text string) session.SpawnRequest {
	req := spawnOf(id, text)
	req.Options.Sandbox = session.SandboxParent
	return req
}

// A child in its parent's sandbox is made on the parent's host; the parent gets a sandbox for
// it, and can't be evicted while the child is open.
func TestAChildInItsParentsSandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var refused, evicted *answer
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "HOLD on")) })
	p.after(time.Minute, func() {
		require.True(t, p.snapshot().Children[0].Shares)
		require.Equal(t, session.ControlQueue(host), p.w.queues[contract.ActivityCreateSandbox])
		refused = p.update(session.UpdateEvict)
	})
	p.then(
		func() { require.NoError(t, p.w.letGo("child")) },
		func() { evicted = p.update(session.UpdateEvict) },
		func() { require.Nil(t, p.snapshot().Sandbox) },
	)
	p.run()
	require.ErrorIs(t, session.FromTemporal(refused.refused), session.ErrBusy)
	require.NoError(t, evicted.refused)
	require.Len(t, p.w.places, 2)
	require.Equal(t, "s1", p.w.places[0].Agent.SessionID)
	require.Nil(t, p.w.places[0].Shared)
	require.Equal(t, "s1", p.w.places[1].Agent.Shares)
	require.Equal(t, "s1-e2", p.w.places[1].Shared.ID)
}

// The idle timeout leaves a sandbox alone while a child is open that is to work in it, however long
// the child takes to begin.
func TestASharedSandboxIsNotIdle(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.background = []string{"session child"}
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "HOLD on")) })
	p.after(30*time.Hour, func() { require.NotNil(t, p.snapshot().Sandbox) })
	p.then(func() { require.NoError(t, p.w.letGo("child")) })
	p.after(time.Hour, func() { p.w.background = nil })
	p.after(time.Hour, func() { require.Nil(t, p.snapshot().Sandbox) })
	p.run()
	var looks, shared int
	for _, in := range p.w.ended {
		if in.Agent.SessionID != "s1" || in.Reason != "idle" {
			continue
		}
		looks++
		if in.Shared {
			shared++
			require.True(t, in.UnlessBusy, "after a day too")
		}
	}
	require.Positive(t, shared)
	require.Greater(t, looks, shared, "once the child has ended it is as idle as any")
}

// A grandchild works where its parent does, unless it asks for a sandbox of its own.
func TestASharedSandboxIsInherited(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	own := spawnOf("own", "three")
	own.Options.Sandbox = session.SandboxOwn
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "HOLD on")) })
	p.after(time.Minute, func() { p.updateChild("child", session.UpdateSpawn, spawnOf("grandchild", "HOLD on")) })
	p.after(time.Minute, func() { p.updateChild("grandchild", session.UpdateSpawn, own) })
	p.after(time.Minute, func() {})
	p.run()
	shares := map[string]string{}
	for _, in := range p.w.places {
		shares[in.Agent.SessionID] = in.Agent.Shares
	}
	require.Equal(t, map[string]string{"s1": "", "child": "s1", "grandchild": "child", "own": ""}, shares)
}

// A parent's sandbox may be gone, with its host or without: it is looked for again, not for ever.
func TestASharedSandboxOnALostHost(t *testing.T) {
	t.Parallel()
	for lost, want := range map[int]event.SubagentResult{9: event.SubagentCompletedOK, 10: event.SubagentFailed} {
		p := newPlay(t)
		p.w.lostShares = lost
		p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "one")) })
		p.after(time.Hour, func() {})
		p.run()
		require.Equal(t, want, heard[event.SubagentCompleted](p.w, "s1")[0].Status)
		require.Len(t, p.w.places, 1+10)
	}
}

// A session that waits for a slot for its child's sake can be closed.
func TestCloseWhileAChildWaitsForTheSandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.crowded = true
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "one")) })
	p.run()
	require.Equal(t, session.Interrupted, p.w.results("child")["to-child"].Outcome)
}

// A sandbox that can't be made for a child is not tried for again and again: the child waits
// until its parent has one.
func TestAChildWaitsForAParentWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.noAgent = true
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "one")) })
	p.after(10*time.Second, func() {
		require.Len(t, p.w.places, 1)
		p.w.noAgent = false
		p.send("m1", "two")
	})
	p.after(time.Minute, func() {})
	p.run()
	require.Equal(t, session.Completed, p.w.results("child")["to-child"].Outcome)
}

// A sandbox that is made for a child takes a new epoch, as in a turn: nothing is written under
// the old one meanwhile.
func TestNothingIsWrittenWhileAChildsSandboxIsMade(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.crowded = true
	written := 0
	p.then(func() { p.update(session.UpdateSpawn, sharedSpawn("child", "HOLD on")) })
	p.after(time.Second, func() {
		require.Len(t, p.w.places, 1)
		written = len(p.w.emits)
		p.update(session.UpdateConfigure, session.Configure{Title: ptr("meanwhile")})
	})
	p.after(time.Second, func() {
		require.Len(t, p.w.emits, written)
		require.NoError(t, p.w.makeRoom())
	})
	p.after(time.Minute, func() { require.Greater(t, len(p.w.emits), written) })
	p.run()
}
