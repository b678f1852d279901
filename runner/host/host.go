// Package host is for providers whose sandboxes are folders of this machine: it
// inspects a runner from outside, through its control folder, and ends it without
// its token. The rights on that folder decide who may do so.
package host

import "github.com/sojourn-run/sojourn/runner"

// State is a runner as seen from outside.
type State struct {
	// Known means that an agent was started in the control folder before; Status is
	// its last written status.
	Known  bool
	Status runner.Status
	// Alive means that a supervisor holds the control folder.
	Alive bool
}

// Died reports whether the runner was killed while its agent was running.
func (s State) Died() bool {
	return s.Known && !s.Alive && s.Status.State == runner.AgentRunning
}
