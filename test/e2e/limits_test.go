package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestLimitInATurn: every agent is interrupted when its session reaches its limit of
// working time. The session is visibly paused, and when the limit is raised the agent
// continues before anything else.
func TestLimitInATurn(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name, Limits: limits.Limits{WorkMS: 6000}})
		r, err := h.Send(ctx, session.Message{Text: "TOOL bash: sleep 600"})
		require.NoError(t, err)
		res, err := h.Wait(ctx, r)
		require.NoError(t, err)
		require.Equal(t, session.Interrupted, res.Outcome)
		require.Equal(t, session.TypeLimit, res.Error.Code)
		require.Equal(t, "the limit of 6s of work is reached", res.Reason)

		i, err := h.Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, session.StatusPaused, i.Status)
		require.Equal(t, res.Reason, i.WaitsFor)
		_, err = h.AwaitIdle(ctx)
		require.ErrorIs(t, err, session.ErrPaused)
		waited := program(t, "wait", h.ID())
		require.Equal(t, 3, waited.code, waited.err)
		require.Contains(t, waited.err, "raises the limit")
		require.Regexp(t, `(?m)^`+h.ID()+`\s.* paused \(interrupted, `+res.Reason+`\) `, sojourn(t, "ls"))
		inInbox := regexp.MustCompile(`(?m)^` + h.ID() + `\s.*` + res.Reason)
		require.Eventually(t, func() bool { return inInbox.MatchString(sojourn(t, "inbox")) }, patience, tick, "the index has it a moment later")

		next, err := h.Send(ctx, session.Message{Text: "SAY behind the limit"})
		require.NoError(t, err)
		require.Contains(t, sojourn(t, "configure", h.ID(), "--max-work", "1h"), "is configured")
		require.Equal(t, "behind the limit", answeredWell(ctx, t, h, next).Result.Response)
		var began []string
		for _, p := range payloads[event.QueryStarted](events(t, h)) {
			began = append(began, p.MessageIDs[0])
		}
		require.Equal(t, []string{r.MessageID, "sojourn-continue-" + r.ExecutionID, next.MessageID}, began)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())
		require.Contains(t, sojourn(t, "show", h.ID()), res.Reason, "the conversation says why it stopped")
	})
}

// TestLimitsBindTheRunningTurn: a limit that is raised while a turn runs holds for it, and so
// does a part of its limit that a child gets then, also after the worker is killed.
func TestLimitsBindTheRunningTurn(t *testing.T) {
	skip.InShort(t, "TestLimitInATurn holds a turn")
	inOwnNamespace(t)
	w := startWorker(t)
	atGate := func(tokens int64) (h *session.Handle, r session.Receipt, gate, last string) {
		ctx := testContext(t)
		h = open(t, session.Options{Agent: "codex", Limits: limits.Limits{Tokens: tokens}}) // it reports a call's tokens behind the call's tool
		gate, last = "bound-"+uuid.NewString(), "last-"+uuid.NewString()
		r, err := h.Send(ctx, session.Message{Text: "GATE " + gate + " THEN TOOL bash: sleep 3 THEN GATE " + last + " THEN SAY done"})
		require.NoError(t, err)
		require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
		return h, r, gate, last
	}
	raised, answers, gate, last := atGate(100)
	sojourn(t, "configure", raised.ID(), "--max-tokens", "10000")
	heardUntil(t, raised, 0, nth[event.OptionsUpdate](1))
	spaceOf(t).Model.Open(gate)
	heardUntil(t, raised, 0, first(func(m event.MetadataUpdate) bool { return m.Usage != nil })) // more than it might before
	spaceOf(t).Model.Open(last)
	require.Equal(t, "done", answeredWell(testContext(t), t, raised, answers).Result.Response)

	// Its last call is held back: else it might end before the limit interrupts it.
	parent, held, gate, _ := atGate(1000)
	child, _ := spawnGatedWith(t, parent, session.Options{Limits: limits.Limits{Tokens: 950}})
	heardUntil(t, parent, 0, nth[event.SubagentSpawned](1))
	require.NoError(t, w.Kill())
	startWorkerIn(t, w.dataDir)
	spaceOf(t).Model.Open(gate)
	res, err := parent.Wait(testContext(t), held)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Equal(t, session.TypeLimit, res.Error.Code)
	require.Contains(t, res.Reason, "the limit of 1000 tokens is reached")
	for _, h := range []*session.Handle{raised, parent} {
		require.NoError(t, h.Close(testContext(t)))
		requireParity(t, h.ID())
	}
	awaitClosed(t, child, "cancelled")
}

// TestPriceTable: an agent that reports no cost costs what the worker's table of prices
// says, for subscribers, in results and lists, and a limit of dollars binds it. Without a
// price for its model its cost stays unknown.
func TestPriceTable(t *testing.T) {
	inOwnNamespace(t)
	table := filepath.Join(t.TempDir(), "prices.json")
	require.NoError(t, os.WriteFile(table, []byte(`{"*": {"input": 1000, "output": 5000}, "free of cost*": {"input": 0, "output": 0}}`), 0o600))
	startWorker(t, "SOJOURN_PRICES="+table)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		if a.Info().Capabilities.Cost {
			return // its own figures stand, see TestCostInLists
		}
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name, Limits: limits.Limits{CostUSD: 0.3}})
		r := say(t, h, "SAY for some money")
		require.NoError(t, r.Err())
		cost := 0.1 + 0.1 // 100 tokens in, 20 out
		require.NotNil(t, r.Result.CostUSD)
		require.InDelta(t, cost, *r.Result.CostUSD, 1e-9)
		i, err := h.Inspect(ctx)
		require.NoError(t, err)
		require.InDelta(t, cost, *i.CostUSD, 1e-9)
		var streamed *float64
		for _, m := range payloads[event.MetadataUpdate](events(t, h)) {
			streamed = event.AddKnown(streamed, m.CostUSD)
		}
		require.NotNil(t, streamed)
		require.InDelta(t, cost, *streamed, 1e-9, "subscribers are told it")
		require.Regexp(t, `(?m)^`+h.ID()+`\s.*\$0\.20`, sojourn(t, "ls"))

		require.NoError(t, say(t, h, "SAY for some more").Err())
		_, err = h.Send(ctx, session.Message{Text: "SAY too much"})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			i, err := h.Inspect(ctx)
			return err == nil && i.Status == session.StatusPaused && strings.Contains(i.WaitsFor, "the limit of $0.3 is reached: $0.4")
		}, patience, tick)
		require.NoError(t, h.Close(ctx))
	})
}

// TestLimitOfTurns: messages after the last turn wait, also through close and reopen.
func TestLimitOfTurns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	id := strings.TrimSpace(sojourn(t, "new", "--agent", anyAgent(t), "--max-turns", "1"))
	h, err := spaceOf(t).Client.Get(ctx, id)
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY the only one").Err())
	_, err = h.AwaitIdle(ctx)
	require.NoError(t, err, "nothing waits")
	require.NoError(t, h.Close(ctx))
	h, err = spaceOf(t).Client.Open(ctx, id, session.Options{})
	require.NoError(t, err)
	waits, err := h.Send(ctx, session.Message{Text: "SAY one more"})
	require.NoError(t, err)
	var paused *session.Inspection
	eventually(t, func(c *assert.CollectT) bool {
		i, err := h.Inspect(ctx)
		require.NoError(c, err)
		paused = &i
		return i.Status == session.StatusPaused
	}, patience, tick)
	require.Equal(t, "the limit of 1 turns is reached", paused.WaitsFor)
	require.Equal(t, limits.Limits{Turns: 1}, paused.Options.Limits)
	require.Eventually(t, func() bool { return strings.Contains(sojourn(t, "inbox"), id) }, patience, tick, "who may raise it finds it")
	require.Regexp(t, `(?m)^`+id+`\s.* paused `, sojourn(t, "ls"))
	sojourn(t, "configure", id, "--max-turns", "2", "--max-cost", "1000")
	answeredWell(ctx, t, h, waits)
	bad := program(t, "configure", id, "--max-turns", "-1")
	require.Equal(t, 2, bad.code, bad.err)
	require.Contains(t, bad.err, "--max-turns: is negative")
	require.NoError(t, h.Close(ctx))
	requireParity(t, id)
}

// TestATerminatedChildsPartIsUsed: what a terminated child has used is unknown, so that its part
// of its parent's limits counts, also if it is terminated in a later run of its parent.
func TestATerminatedChildsPartIsUsed(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{Agent: "codex", Limits: limits.Limits{Tokens: 1000}})
	terminated := func(part int64) {
		child, _ := spawnGated(t, parent)
		now, err := parent.Snapshot(ctx)
		require.NoError(t, err)
		require.Equal(t, part, now.Children[0].GrantTokens)
		require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, child.ID(), "", "an operator"))
		eventually(t, func(c *assert.CollectT) bool { return len(childrenOf(t, parent)) == 0 }, patience, tick)
	}
	terminated(500)
	terminated(250)
	require.NoError(t, parent.Close(ctx))
	reopened, err := spaceOf(t).Client.Open(ctx, parent.ID(), session.Options{})
	require.NoError(t, err)
	parent = reopened
	terminated(125)
	require.NoError(t, parent.Close(ctx))
}

// TestLimitOfATreesTokens: a child of an agent that reports no cost has a part of its parent's
// tokens, and what it used counts, also when the parent is closed and open again.
func TestLimitOfATreesTokens(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	parent := open(t, session.Options{Agent: "codex", Limits: limits.Limits{Tokens: 1000}})
	spawnWithin := func(asked, want int64) (used int64) {
		child, gate := spawnGatedWith(t, parent, session.Options{Limits: limits.Limits{Tokens: asked}})
		now, err := parent.Snapshot(ctx)
		require.NoError(t, err)
		require.Len(t, now.Children, 1)
		require.Equal(t, want, now.Children[0].GrantTokens)
		i, err := child.Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, limits.Limits{Tokens: want}, i.Options.Limits)
		spaceOf(t).Model.Open(gate)
		var took *event.Usage
		for ev, err := range parent.Events(ctx, now.LastSeq, session.Follow) {
			require.NoError(t, err)
			if end, ended := ev.Payload.(event.SubagentCompleted); ended {
				took = end.Usage
				break
			}
		}
		require.NotNil(t, took)
		require.Positive(t, took.InputTokens)
		return took.InputTokens + took.OutputTokens
	}
	used := spawnWithin(0, 500)
	require.NoError(t, parent.Close(ctx))
	parent, err := spaceOf(t).Client.Open(ctx, parent.ID(), session.Options{})
	require.NoError(t, err)
	spawnWithin(5000, 1000-used)
	require.NoError(t, parent.Close(ctx))
}
