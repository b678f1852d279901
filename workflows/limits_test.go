package workflows

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

func limited(l limits.Limits) func(*session.Input) {
	return func(in *session.Input) { in.Options.Limits = l }
}

// What an execution had used whose hosts were lost is counted, though it fails.
func TestALostExecutionIsCounted(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.w.usedBefore = limits.Execution{Usage: event.Usage{InputTokens: 7}, CostUSD: new(0.5), Calls: new(3)}
	p.then(func() { p.send("m1", "LOST in the fire") })
	p.after(time.Hour, func() {})
	p.run()
	require.Equal(t, session.Failed, p.w.results("s1")["m1"].Outcome)
	rec := p.w.finished[0].Record
	require.Equal(t, event.Usage{InputTokens: 7}, rec.Usage)
	require.InDelta(t, 0.5, *rec.CostUSD, 1e-9)
	require.Equal(t, 3, *rec.Ticks)
}

// A session that a limit holds back is listed as paused when a message waits, not only when a
// turn was cut, and as idle when none waits any more; also one that has a sandbox. The limit is
// listed with it, also one that was changed and is reached all the same.
func TestAPauseIsListed(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{Turns: 1}))
	upserts := upsertsOf(p)
	listed := func() (status, limit any) {
		for _, set := range *upserts {
			status, limit = cmp.Or(set["Status"], status), cmp.Or(set["Limit"], limit)
		}
		return status, limit
	}
	idle := func() {
		status, _ := listed()
		require.Equal(t, "idle", status)
	}
	pausedBy := func(want string) {
		status, limit := listed()
		require.Equal(t, "paused", status)
		require.Equal(t, want, limit)
	}
	p.then(
		func() { p.send("m1", "one") },
		func() { idle(); p.send("m2", "two") },
		func() {
			pausedBy("the limit of 1 turns is reached")
			p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{Tokens: new(int64(1))}})
		},
		func() {
			pausedBy("the limit of 1 tokens is reached: 15")
			p.update(session.UpdateInterrupt, session.InterruptRequest{ClearQueue: true})
		},
		func() { idle(); p.send("m3", "three") },
		func() { pausedBy("the limit of 1 tokens is reached: 15") },
	)
	p.run()
	require.Equal(t, []string{"one"}, p.w.prompts("s1"))
}

// What waits behind a limit runs when it is raised. Each answer costs $0.25.
func TestALimitPausesWhatWaits(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{CostUSD: 0.5}))
	p.then(
		func() { p.send("m1", "one") },
		func() { p.send("m2", "two") },
		func() { require.Equal(t, session.StatusIdle, p.snapshot().Status, "nothing waits") },
		func() { p.send("m3", "three") },
	)
	var refused *answer
	p.then(
		func() {
			i := p.inspect()
			require.Equal(t, session.StatusPaused, i.Status)
			require.Equal(t, "paused", i.Phase)
			require.Equal(t, "the limit of $0.5 is reached: $0.5", i.WaitsFor)
			require.Equal(t, []string{"one", "two"}, p.w.prompts("s1"))
		},
		func() {
			refused = p.update(session.UpdateSend, session.Message{ID: "m4", Text: "four", WhenBusy: session.BusyReject})
		},
		func() {
			p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{CostUSD: ptr(1.0)}})
		},
		func() {
			require.Equal(t, []string{"one", "two", "three"}, p.w.prompts("s1"))
			i := p.inspect()
			require.Equal(t, session.StatusIdle, i.Status)
			require.Empty(t, i.WaitsFor)
			require.Equal(t, limits.Limits{CostUSD: 1}, i.Options.Limits)
		},
	)
	p.run()
	require.ErrorIs(t, session.FromTemporal(refused.refused), session.ErrBusy)
}

// A turn that a limit interrupted continues when the limit is raised, before later
// messages.
func TestWhatALimitCutContinues(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{Tokens: 15}))
	p.then(
		func() { p.send("m1", "LIMIT one") },
		func() { p.send("m2", "two") },
		func() {
			require.Equal(t, session.StatusPaused, p.snapshot().Status)
			require.Equal(t, session.Interrupted, p.inspect().LastOutcome)
			require.Equal(t, []string{"LIMIT one"}, p.w.prompts("s1"))
			require.Equal(t, []session.Message{
				{ID: "sojourn-continue-x1", Text: session.ContinueText, WhenBusy: session.BusyInterrupt}, {ID: "m2", Text: "two"},
			}, p.snapshot().Queued)
		},
		func() {
			p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{Tokens: ptr(int64(0))}})
		},
	)
	p.run()
	require.Equal(t, []string{"LIMIT one", session.ContinueText, "two"}, p.w.prompts("s1"))
	require.Equal(t, int64(15), p.w.turns[1].Used.Tokens, "the turn's input has the earlier usage")
}

func TestABadLimitIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var refused *answer
	p.then(func() {
		refused = p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{Turns: ptr(-1)}})
	})
	p.run()
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(refused.refused), &invalid)
	require.Equal(t, "limits.turns", invalid.Field)
}

// A turn that a limit cut does not continue if a person interrupted it as well.
func TestWhatAPersonInterruptedDoesNotContinue(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{Tokens: 15}))
	p.w.deaf = 100
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			p.update(session.UpdateInterrupt, session.InterruptRequest{Message: &session.Message{ID: "m2", Text: "instead"}})
		},
		func() { require.NoError(t, p.w.cut("s1")) },
		func() {
			require.Equal(t, session.StatusPaused, p.snapshot().Status)
			p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{Tokens: ptr(int64(0))}})
		},
	)
	p.run()
	require.Equal(t, []string{"HOLD one", "instead"}, p.w.prompts("s1"))
}

// TestATreeHasOnePurse: a child may cost what it asks for, as far as its parent's limit
// leaves it, else half of that; it counts as used until the child ends, and then what
// it has cost. A session at its limit spawns no child.
func TestATreeHasOnePurse(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{CostUSD: 1}))
	asking := func(id string, costUSD float64) session.SpawnRequest {
		req := spawnOf(id, "HOLD "+id)
		req.Options.Limits.CostUSD = costUSD
		return req
	}
	granted := func() []float64 {
		var all []float64
		for _, c := range p.snapshot().Children {
			all = append(all, c.GrantUSD)
		}
		return all
	}
	var refused *answer
	p.then(
		func() { p.update(session.UpdateSpawn, asking("a", 0)) },
		func() { p.update(session.UpdateSpawn, asking("b", 0.1)) },
		func() { p.update(session.UpdateSpawn, asking("c", 7)) },
		func() {
			require.InDeltaSlice(p, []float64{0.5, 0.1, 0.4}, granted(), 1e-9)
			refused = p.update(session.UpdateSpawn, asking("d", 0))
		},
		func() { require.NoError(p, p.w.letGo("c")) },
		func() { p.update(session.UpdateSpawn, asking("e", 0)) },
		func() {
			left := 1 - 0.5 - 0.1 - *p.snapshot().CostUSD
			require.InDeltaSlice(p, []float64{0.5, 0.1, left / 2}, granted(), 1e-9)
		},
		func() { p.update(session.UpdateClose) },
	)
	p.run()
	require.ErrorContains(t, refused.refused, "limits: of the spawning session: the limit of $1 is reached")
	for _, in := range p.w.begun[1:] {
		require.NotZero(t, in.Session.Options.Limits.CostUSD, in.Session.SessionID)
	}
}

// TestATreeHasOnePurseOfTokens: tokens are divided as dollars are, so that the children of
// an agent whose cost is unknown can't exceed a limit.
func TestATreeHasOnePurseOfTokens(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{Tokens: 1000}))
	asking := func(id string, tokens int64) session.SpawnRequest {
		req := spawnOf(id, "HOLD "+id)
		req.Options.Limits.Tokens = tokens
		return req
	}
	granted := func() (all []int64) {
		for _, c := range p.snapshot().Children {
			all = append(all, c.GrantTokens)
		}
		return all
	}
	var refused *answer
	var used int64
	p.then(
		func() { p.update(session.UpdateSpawn, asking("a", 0)) },
		func() { p.update(session.UpdateSpawn, asking("b", 100)) },
		func() { p.update(session.UpdateSpawn, asking("c", 7000)) },
		func() {
			require.Equal(p, []int64{500, 100, 400}, granted())
			refused = p.update(session.UpdateSpawn, asking("d", 0))
			p.updateChild("c", session.UpdateSpawn, asking("grandchild", 0))
		},
		func() { require.NoError(p, p.w.letGo("grandchild")) },
		func() { require.NoError(p, p.w.letGo("c")) },
		func() { p.update(session.UpdateSpawn, asking("e", 0)) },
		func() {
			all := granted()
			require.Len(p, all, 3)
			used = 400 - 2*all[2]
			require.Equal(p, []int64{500, 100}, all[:2])
		},
		func() { p.update(session.UpdateClose) },
	)
	p.run()
	require.ErrorContains(t, refused.refused, "limits: of the spawning session: the limit of 1000 tokens is reached")
	of := map[string]int64{}
	for _, in := range p.w.begun {
		of[in.Session.SessionID] = in.Session.Options.Limits.Tokens
	}
	require.EqualValues(t, 200, of["grandchild"], "half of its parent's part")
	require.EqualValues(t, 2*15, used, "those of the child and of its own child")
}

// TestAChildsPartCountsTheRunningTurn: what a turn has used when it spawns is no child's, and
// a turn that has used everything spawns none.
func TestAChildsPartCountsTheRunningTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{CostUSD: 1, Tokens: 1000}))
	var refused *answer
	p.then(
		func() { p.send("m1", "HOLD m1") },
		func() {
			p.w.spent = contract.ControlOutput{CostUSD: ptr(0.6), Usage: event.Usage{InputTokens: 300, OutputTokens: 100}}
			p.update(session.UpdateSpawn, spawnOf("a", "HOLD a"))
		},
		func() {
			require.Len(p, p.snapshot().Children, 1)
			require.InDelta(p, 0.2, p.snapshot().Children[0].GrantUSD, 1e-9)
			require.EqualValues(p, 300, p.snapshot().Children[0].GrantTokens)
			p.w.spent.CostUSD = ptr(0.9)
			refused = p.update(session.UpdateSpawn, spawnOf("b", "HOLD b"))
		},
		func() { p.update(session.UpdateClose) },
	)
	p.run()
	require.ErrorContains(t, refused.err, "limits: of the spawning session: the limit of $1 is reached")
}

// What the children of a session had used before it was closed still counts when it is open again.
func TestChildTokensOfAReopenedSession(t *testing.T) {
	t.Parallel()
	p := newPlay(t, limited(limits.Limits{Tokens: 1000}), func(in *session.Input) { in.Reopened = true })
	p.w.record = &session.Record{Native: 1, ChildTokens: 1000}
	p.then(
		func() { p.send("m1", "one") },
		func() { require.Equal(t, session.StatusPaused, p.snapshot().Status) },
		func() { p.update(session.UpdateClose) },
	)
	p.run()
	require.Empty(t, p.w.prompts("s1"))
	require.EqualValues(t, 1000, p.w.finished[0].Record.ChildTokens)
}
