package adaptertest

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
)

// scenario is one course of a session.
type scenario struct {
	name string
	// session is the name of a session in which several scenarios with the same options
	// are played, one after another: some programs take seconds of a processor to start.
	// Default: the scenario has a session of its own.
	session string
	// needs is the capability that it needs. Default: none.
	needs   ability
	options Options
	// before is called before the session's agent is started.
	before func(*Rig)
	play   func(*Rig)
	// fresh scenarios are part of Fresh too.
	fresh bool
}

// Run runs the suite, one subtest per scenario, below a subtest with the agent's name, and
// one with the name of the common session if they have one.
func Run(t *testing.T, a Agent) {
	t.Parallel()
	known := map[string]bool{}
	t.Run(a.name(), func(t *testing.T) {
		for _, s := range scenarios() {
			known[s.name] = true
			if s.session == "" {
				t.Run(s.name, func(t *testing.T) { s.run(t, a) })
			}
		}
		for _, name := range []string{inTurns, inAsked, inRestarts} {
			t.Run(name, func(t *testing.T) { together(t, a, name) })
		}
	})
	for name := range a.Missing {
		require.True(t, known[name], "Missing names %q, which is no scenario", name)
	}
}

// Fresh runs a handful of scenarios for their parity, which every scenario checks at
// its end. If all tests are run, it skips them, since Run covers them.
func Fresh(t *testing.T, a Agent) {
	t.Parallel()
	if everything() {
		skip.NotApplicable(t, "TestConformance, which is run too, proves the parity of every scenario")
	}
	t.Run(a.name(), func(t *testing.T) {
		for _, s := range scenarios() {
			if s.fresh {
				t.Run(s.name, func(t *testing.T) { s.run(t, a) })
			}
		}
	})
}

// everything reports whether no test was picked by its name.
func everything() bool {
	f := flag.Lookup("test.run")
	return f == nil || f.Value.String() == ""
}

// run plays a scenario in a session of its own.
func (s scenario) run(t *testing.T, a Agent) {
	t.Parallel()
	s.skipped(t, a)
	r := New(t, a, s.options)
	r.begin(s.name)
	if s.before != nil {
		s.before(r)
	}
	r.Start()
	s.play(r)
	if !t.Failed() {
		r.Finish()
	}
}

// together plays the scenarios of a common session, each as a subtest, to the first that
// fails.
func together(t *testing.T, a Agent, session string) {
	t.Parallel()
	all := slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.session != session })
	var r *Rig
	if i := slices.IndexFunc(all, func(s scenario) bool { return s.plays(t, a) }); i >= 0 {
		r = New(t, a, all[i].options)
		r.Start()
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			s.skipped(t, a)
			r.within(t, func() {
				r.begin(s.name)
				s.play(r)
				r.Parity()
			})
		})
		if t.Failed() {
			return
		}
	}
	if r != nil {
		r.Finish()
	}
}

// plays reports whether skipped would not skip.
func (s scenario) plays(t *testing.T, a Agent) bool {
	return s.lacks(t, a) == "" && (!testing.Short() || s.leftOut(a) == "")
}

// leftOut returns the reason why a short run leaves the scenario out, or "".
func (s scenario) leftOut(a Agent) string {
	switch {
	case a.Shared && s.name != "tool-parallel":
		return "of the scenarios of conformance, one: another suite has the program"
	case !s.fresh:
		return "of the scenarios of conformance, the handful of TestParityFresh"
	}
	return ""
}

// skipped skips the test of a scenario that the agent can't play, or that a short run
// leaves out.
func (s scenario) skipped(t *testing.T, a Agent) {
	if why := s.lacks(t, a); why != "" {
		skip.NotApplicable(t, fmt.Sprintf("%s lacks %s: %s", a.name(), s.name, why))
	}
	if why := s.leftOut(a); why != "" {
		skip.InShort(t, why)
	}
}

// lacks returns the reason why an agent can't play a scenario. It fails the test if the
// adapter claims the capability that the scenario proves.
func (s scenario) lacks(t *testing.T, a Agent) string {
	listed := a.Missing[s.name]
	has := s.needs.has == nil || s.needs.has(a, a.Adapter.Info().Capabilities)
	if s.proves() && has {
		require.Empty(t, listed, "the adapter claims %q, so it must pass", s.needs.name)
	}
	if !has && listed == "" {
		return "the agent has no " + s.needs.name
	}
	return listed
}

// proves reports whether a scenario is the main test of its capability, not just a
// further use of it.
func (s scenario) proves() bool {
	switch s.name {
	case "thinking", "subagent", "interrupt-stream", "interrupt-tool", "permission-allow", "permission-deny", "permission-never",
		"question", "steer", "set-model", "image":
		return true
	}
	return false
}

// sub runs a part of a scenario as a subtest.
func (r *Rig) sub(name string, play func()) {
	r.t.Run(name, func(t *testing.T) { r.within(t, play) })
}

// within runs a function with another test as the rig's.
func (r *Rig) within(t *testing.T, play func()) {
	whole := r.t
	defer func() { r.t = whole }()
	r.t = t
	play()
}
