package contract

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// Agent is what an activity needs of a session's agent.
type Agent struct {
	SessionID  string              `json:"sessionId"`
	Name       string              `json:"name"`
	Profile    string              `json:"profile,omitempty"`
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
	// SystemPrompt as in session.Options.
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// Permissions, PermissionDeadline, Park and UnknownEffects are the session's own, as in
	// session.Options.
	Permissions        permission.Rules       `json:"permissions,omitempty"`
	PermissionDeadline permission.Deadline    `json:"permissionDeadline,omitzero"`
	Park               permission.Park        `json:"parkMs,omitempty"`
	UnknownEffects     permission.EffectRules `json:"unknownEffects,omitempty"`
	Workspace          string                 `json:"workspace,omitempty"`
	// Shares is the parent in whose sandbox the session works; "" for none.
	Shares string `json:"shares,omitempty"`
	// Native counts native sessions, from 1.
	Native int `json:"native"`
	// Spawn and Tools as in session.Options.
	Spawn bool           `json:"spawn,omitempty"`
	Tools []session.Tool `json:"tools,omitempty"`
}

// Policy returns the session's own policy, without its profile's.
func (a Agent) Policy() permission.Policy {
	return permission.Policy{Standing: a.Permission, Rules: a.Permissions, Deadline: a.PermissionDeadline, Park: a.Park, Effects: a.UnknownEffects}
}

// CreateSandboxInput asks for a sandbox on the host that takes the task.
type CreateSandboxInput struct {
	Agent Agent `json:"agent"`
	// Restarts counts the sandboxes and agents lost before.
	Restarts int `json:"restarts,omitempty"`
	// Lost is the session's previous sandbox, if it was lost with its host and the stream
	// does not have that yet.
	Lost    *session.Sandbox `json:"lost,omitempty"`
	LastSeq uint64           `json:"lastSeq,omitempty"`
	// Shared is the parent's sandbox in which to make it; nil for none.
	Shared *session.Sandbox `json:"shared,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// CreateSandboxOutput names the sandbox.
type CreateSandboxOutput struct {
	Sandbox session.Sandbox `json:"sandbox"`
	// Parts are those of the profile that is in it.
	Parts   adapters.Parts `json:"parts,omitzero"`
	LastSeq uint64         `json:"lastSeq"`
}

// EndSandboxInput asks to archive what the sandbox holds and to end it.
type EndSandboxInput struct {
	Agent   Agent           `json:"agent"`
	Sandbox session.Sandbox `json:"sandbox"`
	// Reason is manual, unhealthy, idle, parked, damaged, unowned or terminated.
	Reason  string `json:"reason"`
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// UnlessBusy leaves a sandbox alone if its agent's tools have left running commands.
	UnlessBusy bool `json:"unlessBusy,omitempty"`
	// Shared reports that a child session is open that works in it, or is about to: it is busy.
	Shared bool `json:"shared,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// EndSandboxOutput is the end of the stream after it.
type EndSandboxOutput struct {
	LastSeq uint64 `json:"lastSeq"`
	// Background are the running commands for which the sandbox was left alone; none if it
	// has ended.
	Background []string `json:"background,omitempty"`
}
