package adaptertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// scenario is one thing that a session may go through.
type scenario struct {
	name string
	// needs names the capability without which it can't be, and says whether
	// an agent has it. Default: every agent can.
	needs   string
	has     func(Agent, adapters.Capabilities) bool
	options Options
	play    func(*Rig)
	// fresh is part of Fresh, too.
	fresh bool
}

// Run runs the suite, a subtest per scenario below one of the agent's name.
func Run(t *testing.T, a Agent) {
	t.Parallel()
	known := map[string]bool{}
	t.Run(a.name(), func(t *testing.T) {
		for _, s := range scenarios() {
			known[s.name] = true
			t.Run(s.name, func(t *testing.T) { s.run(t, a) })
		}
	})
	for name := range a.Missing {
		require.True(t, known[name], "Missing names %q, which is no scenario", name)
	}
}

// Fresh runs a handful of scenarios for nothing but their parity, which every
// scenario proves at its end.
func Fresh(t *testing.T, a Agent) {
	t.Parallel()
	t.Run(a.name(), func(t *testing.T) {
		for _, s := range scenarios() {
			if s.fresh {
				t.Run(s.name, func(t *testing.T) { s.run(t, a) })
			}
		}
	})
}

func (s scenario) run(t *testing.T, a Agent) {
	t.Parallel()
	if why := s.lacks(t, a); why != "" {
		t.Skipf("%s lacks %s: %s", a.name(), s.name, why)
	}
	r := New(t, a, s.options)
	r.Start()
	s.play(r)
	if !t.Failed() {
		r.Finish()
	}
}

// lacks gives the reason why an agent can't play a scenario; what its adapter
// claims it must.
func (s scenario) lacks(t *testing.T, a Agent) string {
	listed := a.Missing[s.name]
	if s.has == nil {
		return listed
	}
	has := s.has(a, a.Adapter.Info().Capabilities)
	if has && s.needs != "" {
		require.Empty(t, listed, "the adapter claims %s, so it must pass", s.needs)
	}
	if !has && listed == "" {
		listed = "no " + s.needs
	}
	return listed
}
