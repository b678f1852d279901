package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// A session's rules and deadline are in each turn, in the next run and in the children;
// changes apply from the next turn on.
func TestTheSessionsRules(t *testing.T) {
	t.Parallel()
	first, then := permission.Rules{{Tool: "bash", Answer: permission.Ask}}, permission.Rules{{Tool: "*", Answer: permission.Deny}}
	soon := permission.Deadline{AfterMS: time.Hour.Milliseconds()}
	p := newPlay(t, func(in *session.Input) { in.Options.Permissions = first })
	p.then(
		func() { p.send("m1", "one") },
		func() {
			p.update(session.UpdateConfigure, session.Configure{Permissions: &then, PermissionDeadline: &soon})
		},
		func() { p.wish(); p.send("m2", "two") },
	)
	in := p.runToContinue()
	next := p.nextRun(in)
	next.then(
		func() { next.send("m3", "three") },
		func() { next.update(session.UpdateSpawn, spawnOf("child", "four")) },
	)
	next.run()
	require.Equal(t, first, p.w.turns[0].Agent.Permissions)
	require.Zero(t, p.w.turns[0].Agent.PermissionDeadline)
	for _, turn := range p.w.turns[1:] {
		require.Equal(t, then, turn.Agent.Permissions, turn.Message.Text)
		require.Equal(t, soon, turn.Agent.PermissionDeadline, turn.Message.Text)
	}
	require.Len(t, p.w.turns, 4)
	require.Equal(t, then, next.inspect().Options.Permissions)
}

// The same holds for the rules for calls whose effect is unknown.
func TestR52UnknownEffectRulesInWorkflow(t *testing.T) {
	t.Parallel()
	first, then := permission.EffectRules{{Tool: "bash", Then: permission.LossAsk}}, permission.EffectRules{{Tool: "*", Then: permission.LossFail}}
	p := newPlay(t, func(in *session.Input) { in.Options.UnknownEffects = first })
	p.then(
		func() { p.send("m1", "one") },
		func() { p.update(session.UpdateConfigure, session.Configure{UnknownEffects: &then}) },
		func() { p.wish(); p.send("m2", "two") },
	)
	in := p.runToContinue()
	next := p.nextRun(in)
	next.then(
		func() { next.send("m3", "three") },
		func() { next.update(session.UpdateSpawn, spawnOf("child", "four")) },
	)
	next.run()
	require.Equal(t, first, p.w.turns[0].Agent.UnknownEffects)
	require.Len(t, p.w.turns, 4)
	for _, turn := range p.w.turns[1:] {
		require.Equal(t, then, turn.Agent.UnknownEffects, turn.Message.Text)
	}
	require.Equal(t, then, next.inspect().Options.UnknownEffects)
}
