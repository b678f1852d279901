package contract

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// Agent is what an activity must know of a session's agent.
type Agent struct {
	SessionID  string              `json:"sessionId"`
	Name       string              `json:"name"`
	Profile    string              `json:"profile,omitempty"`
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
	// Permissions and PermissionDeadline are the session's own, as in session.Options.
	Permissions        permission.Rules    `json:"permissions,omitempty"`
	PermissionDeadline permission.Deadline `json:"permissionDeadline,omitzero"`
	Workspace          string              `json:"workspace,omitempty"`
	// Native counts native sessions, from 1.
	Native int `json:"native"`
}

// Policy is the session's own, without its profile's.
func (a Agent) Policy() permission.Policy {
	return permission.Policy{Standing: a.Permission, Rules: a.Permissions, Deadline: a.PermissionDeadline}
}

// CreateSandboxInput asks for a sandbox on the host that takes the task.
type CreateSandboxInput struct {
	Agent Agent `json:"agent"`
	// Restarts counts the sandboxes and agents lost before.
	Restarts int `json:"restarts,omitempty"`
	// Lost is the session's sandbox before, if it was lost with its host and the
	// stream does not have that yet.
	Lost    *session.Sandbox `json:"lost,omitempty"`
	LastSeq uint64           `json:"lastSeq,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// CreateSandboxOutput names the sandbox.
type CreateSandboxOutput struct {
	Sandbox session.Sandbox `json:"sandbox"`
	LastSeq uint64          `json:"lastSeq"`
}

// EndSandboxInput archives what the sandbox holds and ends it.
type EndSandboxInput struct {
	Agent   Agent           `json:"agent"`
	Sandbox session.Sandbox `json:"sandbox"`
	// Reason is manual, unhealthy, idle, damaged, unowned or terminated.
	Reason  string `json:"reason"`
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// EndSandboxOutput is the end of the stream after it.
type EndSandboxOutput struct {
	LastSeq uint64 `json:"lastSeq"`
}
