// Package host is for providers whose sandboxes are folders of this machine:
// it looks at a runner from outside, by its control folder, and ends it
// without its token. Who may do so is decided by the rights on that folder.
package host

import "github.com/sojourn-run/sojourn/runner"

// State is a runner as seen from outside.
type State struct {
	// Known means that an agent was ever started in the control folder; Status
	// is its last written status.
	Known  bool
	Status runner.Status
	// Alive means that a supervisor holds the control folder.
	Alive bool
}

// Died says that the runner was killed under its agent.
func (s State) Died() bool {
	return s.Known && !s.Alive && s.Status.State == runner.AgentRunning
}
