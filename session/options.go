package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
)

// Options are the settings with which a session is created.
type Options struct {
	// Agent is the adapter's name, such as claude. Required.
	Agent string `json:"agent"`
	// Profile is the id of an agent profile. Default: none.
	Profile string `json:"profile,omitempty"`
	// Title is shown in lists. Default: the first message, truncated.
	Title string `json:"title,omitempty"`
	// Workspace is a folder on the sandbox's host to work in, in place. Default: an
	// empty folder for this session.
	Workspace string `json:"workspace,omitempty"`
	// Sandbox is [SandboxOwn] or, for a child session, [SandboxParent]. Default: the
	// parent's Sandbox, then SandboxOwn.
	Sandbox string `json:"sandbox,omitempty"`
	// Model is the agent's name for the model. Default: the profile's, then the
	// agent's.
	Model string `json:"model,omitempty"`
	// SystemPrompt is added to the agent's own, behind what the profile adds. At most
	// MaxSystemPrompt bytes. Default: none.
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// Permission is the default answer to permission requests. Default: the
	// profile's, then allow.
	Permission adapters.Permission `json:"permission,omitempty"`
	// Permissions answer requests before the profile's rules and the default answer
	// do. Default: none.
	Permissions permission.Rules `json:"permissions,omitempty"`
	// PermissionDeadline answers what no person answers in time. Default: the
	// profile's, then none.
	PermissionDeadline permission.Deadline `json:"permissionDeadline,omitzero"`
	// Park is how long a turn waits for a person before its agent is stopped and its
	// sandbox given up, until the answer arrives. Default: the profile's, then an hour.
	Park permission.Park `json:"parkMs,omitempty"`
	// UnknownEffects decide, before the profile's rules do, what a turn does that was lost
	// with its host or runner during a call, whose effect is then unknown: inform the agent
	// and continue, ask a person, or fail with TypeEffectUnknown. Default: continue.
	UnknownEffects permission.EffectRules `json:"unknownEffects,omitempty"`
	// Metadata is the caller's data: any JSON values.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Tags     []string                   `json:"tags,omitempty"`
	Tenant   string                     `json:"tenant,omitempty"`
	// IdleTimeoutMS ends the sandbox after so many idle milliseconds; the session remains.
	// Default: 15 minutes.
	IdleTimeoutMS int64 `json:"idleTimeoutMs,omitempty"`
	// NoProgressMS ends a turn whose agent is silent for so many milliseconds: it is
	// interrupted and fails with TypeNoProgress. The wait for a person's answer does
	// not count. Default: DefaultNoProgress.
	NoProgressMS int64 `json:"noProgressMs,omitempty"`
	// Limits bound what the session uses. When one is reached, a running turn is
	// interrupted and queued messages don't run: the session is StatusPaused. Once
	// the limit is raised the agent is asked to continue. Default: none.
	Limits limits.Limits `json:"limits,omitzero"`
	// MaxTicks is Message.MaxTicks of messages that have none. Default: no limit.
	MaxTicks int `json:"maxTicks,omitempty"`
	// Spawn lets the agent spawn child sessions by itself, and ask, list and stop them,
	// by tools of an MCP server named sojourn. They have the session's rules, and may spawn
	// too, down to MaxDepth. Default: it can't.
	Spawn bool `json:"spawn,omitempty"`
	// SpawnProfiles are the agent profiles that the agent may spawn with, beside the
	// session's own: a profile may have tools and credentials that the session does not.
	// Default: none.
	SpawnProfiles []string `json:"spawnProfiles,omitempty"`
	// Tools are those of your programs that the agent may call. Children do not have them. Default:
	// none.
	Tools []Tool `json:"tools,omitempty"`
}

// Where a session's agent works.
const (
	// SandboxOwn: in a sandbox of its own.
	SandboxOwn = "own"
	// SandboxParent: on the host and in the workspace of its parent's sandbox, beside the
	// parent's agent. Home, processes and conversation are its own. The parent has a
	// sandbox for as long as such a child is open, also while it is idle itself.
	SandboxParent = "parent"
)

// Validate returns an error for the first invalid field.
func (o Options) Validate() error {
	if o.Agent == "" {
		return Invalid("agent", "is empty", "the name of an agent, such as claude")
	}
	if o.Permission != "" {
		if err := validatePermission("permission", o.Permission); err != nil {
			return err
		}
	}
	if err := o.validateSandbox(); err != nil {
		return err
	}
	if err := validateTools(o.Tools); err != nil {
		return err
	}
	if err := validateRules(o.Permissions, o.PermissionDeadline, o.Park, o.UnknownEffects); err != nil {
		return err
	}
	if err := cmp.Or(validateMS("idleTimeoutMs", o.IdleTimeoutMS), validateMS("noProgressMs", o.NoProgressMS), validateLimits(o.Limits), validateMaxTicks("maxTicks", o.MaxTicks)); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{{"agent", o.Agent}, {"profile", o.Profile}, {"tenant", o.Tenant}, {"model", o.Model}} {
		if len(f.value) > maxKeyword {
			return Invalid(f.name, fmt.Sprintf("is %d bytes", len(f.value)), fmt.Sprintf("at most %d bytes", maxKeyword))
		}
	}
	if err := firstUTF8("agent", o.Agent, "profile", o.Profile, "tenant", o.Tenant, "model", o.Model, "workspace", o.Workspace, "title", o.Title, "systemPrompt", o.SystemPrompt); err != nil {
		return err
	}
	if err := validateText("workspace", o.Workspace, maxReason); err != nil {
		return err
	}
	if len(o.SystemPrompt) > MaxSystemPrompt {
		return Invalid("systemPrompt", fmt.Sprintf("is %d bytes", len(o.SystemPrompt)), fmt.Sprintf("at most %d bytes; a profile can have more", MaxSystemPrompt))
	}
	if err := validateIndexed("title", o.Title); err != nil {
		return err
	}
	return validateBag(o.Metadata, o.Tags)
}

func (o Options) validateSandbox() error {
	switch o.Sandbox {
	case "", SandboxOwn:
		return nil
	case SandboxParent:
		if o.Workspace != "" {
			return Invalid("workspace", fmt.Sprintf("is %s, and sandbox %q", o.Workspace, o.Sandbox), "one of the two: a session in its parent's sandbox works in the parent's workspace")
		}
		return nil
	}
	return Invalid("sandbox", fmt.Sprintf("is %q", o.Sandbox), fmt.Sprintf("%q, or %q for a child session", SandboxOwn, SandboxParent))
}

// Temporal refuses a search attribute of more than 2 KiB as JSON, and SQL
// visibility a keyword of more than 255 characters. Temporal fails a workflow
// that sets such a value, so it is refused here.
const (
	maxIndexed = 2000
	maxKeyword = 255
)

func validateIndexed(field string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return Invalid(field, err.Error(), "a value that encodes as JSON")
	}
	if len(data) > maxIndexed {
		return Invalid(field, fmt.Sprintf("is %d bytes as JSON", len(data)), fmt.Sprintf("at most %d bytes", maxIndexed))
	}
	return nil
}

func validateLimits(l limits.Limits) error {
	switch field := l.Invalid(); {
	case field == "workMs" && l.WorkMS > 0:
		return Invalid("limits.workMs", "is more than 100 years", "0 (no limit), or the milliseconds of at most 100 years")
	case field != "":
		return Invalid("limits."+field, "is negative or no number", "0 (no limit) or more")
	}
	return nil
}

func validateMS(field string, ms int64) error {
	switch {
	case ms < 0:
		return Invalid(field, "is negative", "0 (default) or more milliseconds")
	case ms > permission.MaxMS:
		return Invalid(field, "is more than 100 years", "0 (default), or the milliseconds of at most 100 years")
	}
	return nil
}

func validateMaxTicks(field string, n int) error {
	if n < 0 {
		return Invalid(field, "is negative", "0 (no bound) or more model calls")
	}
	return nil
}

func validatePermission(field string, p adapters.Permission) error {
	if p.Valid() {
		return nil
	}
	return Invalid(field, fmt.Sprintf("%q is unknown", p), "allow, ask or deny")
}

// maxRules keeps the input of each turn small.
const maxRules = 64 << 10

func validateRules(rules permission.Rules, deadline permission.Deadline, park permission.Park, effects permission.EffectRules) error {
	var wrong *permission.FieldError
	if errors.As(cmp.Or(rules.Validate(), deadline.Validate(), park.Validate(), effects.Validate()), &wrong) {
		return Invalid(wrong.Field, wrong.Reason, wrong.Want)
	}
	return firstOf(validateSize("permissions", rules), validateSize("unknownEffects", effects))
}

func validateSize(field string, rules any) error {
	data, err := json.Marshal(rules)
	if err != nil || !utf8.Valid(data) || len(data) > maxRules {
		return Invalid(field, fmt.Sprintf("are %d bytes as JSON", len(data)), fmt.Sprintf("at most %d bytes of UTF-8", maxRules))
	}
	return nil
}

const maxBag = 64 << 10

func validateBag(metadata map[string]json.RawMessage, tags []string) error {
	size := 0
	for k, v := range metadata {
		if k == "" {
			return Invalid("metadata", "has an empty key", "keys with a name")
		}
		if !utf8.ValidString(k) || !utf8.Valid(v) {
			return Invalid("metadata", "is not UTF-8", "text in UTF-8")
		}
		size += len(k) + len(v)
	}
	if size > maxBag {
		return Invalid("metadata", fmt.Sprintf("is %d bytes", size), fmt.Sprintf("at most %d bytes", maxBag))
	}
	for _, t := range tags {
		if err := validateUTF8("tags", t); err != nil {
			return err
		}
		if t == "" || len(t) > 64 {
			return Invalid("tags", fmt.Sprintf("has %q", shorten(t, 64)), "tags of 1 to 64 bytes")
		}
	}
	return validateIndexed("tags", tags)
}

// Input starts the session workflow.
type Input struct {
	SessionID string `json:"sessionId"`
	// Version is the StateVersion of the build that wrote it; 0 if it predates
	// versions.
	Version   int       `json:"version,omitempty"`
	Options   Options   `json:"options"`
	CreatedAt time.Time `json:"createdAt"`
	// Reopened marks a new run of a session that was closed.
	Reopened bool `json:"reopened,omitempty"`
	// LastSeq is the last sequence number of the previous run, if reopened.
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// Executions counts the execution ids that previous runs assigned: an id is never
	// used twice in a session.
	Executions int `json:"executions,omitempty"`
	// Ephemeral closes the session by itself once its queue is answered and its children
	// are closed, and hides it from lists. Spawned sessions always are.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Parent is set for spawned sessions.
	Parent *Parent `json:"parent,omitempty"`
	// First runs at once.
	First *Message `json:"first,omitempty"`
	// Carried is the state of the previous run, at continue-as-new.
	Carried *State `json:"carried,omitempty"`
}

// memoCreatedAt is the memo's field with Input.CreatedAt.
const memoCreatedAt = "createdAt"

// Memo returns the memo with which the workflow is started. Its runs share it, so lists have
// the session's creation also when its newest run started later.
func (in Input) Memo() map[string]any { return map[string]any{memoCreatedAt: in.CreatedAt} }

// Validate returns an error for the first invalid field of the input of a workflow.
func (in Input) Validate(workflowID string) error {
	if err := ValidateID("sessionId", in.SessionID); err != nil {
		return err
	}
	if in.SessionID != workflowID {
		return Invalid("sessionId", fmt.Sprintf("%q is not the workflow id %q", in.SessionID, workflowID), "the workflow id")
	}
	if in.Options.Sandbox == SandboxParent && in.Parent == nil {
		return Invalid("sandbox", fmt.Sprintf("is %q, and the session has no parent", SandboxParent), fmt.Sprintf("%q", SandboxOwn))
	}
	if in.Parent != nil {
		if err := in.Parent.validate(in.SessionID); err != nil {
			return err
		}
	}
	if in.First != nil {
		if err := in.First.Validate(); err != nil {
			return err
		}
	}
	return in.Options.Validate()
}

// Shares returns the parent in whose sandbox the session works; "" for none.
func (in Input) Shares() string {
	if in.Parent == nil || in.Options.Sandbox != SandboxParent {
		return ""
	}
	return in.Parent.SessionID
}

// Unlisted reports whether lists hide the session unless asked for all.
func (in Input) Unlisted() bool { return in.Ephemeral || in.Parent != nil }

// Depth returns how many sessions are above this one.
func (in Input) Depth() int {
	if in.Parent == nil {
		return 0
	}
	return in.Parent.Depth
}

// Root returns the top-level ancestor of this session.
func (in Input) Root() string {
	if in.Parent == nil {
		return in.SessionID
	}
	return in.Parent.Root
}

// Parent identifies the session that spawned this one.
type Parent struct {
	SessionID string `json:"sessionId"`
	Root      string `json:"root"`
	// Depth of the spawned session; its parent's plus one.
	Depth     int    `json:"depth"`
	ToolUseID string `json:"toolUseId"`
}

// validate refuses a parent that no session with this id can have: a program may start the
// workflow with any.
func (p Parent) validate(child string) error {
	if err := firstOf(ValidateID("parent.sessionId", p.SessionID), ValidateID("parent.root", p.Root)); err != nil {
		return err
	}
	switch {
	case p.SessionID == child:
		return Invalid("parent.sessionId", "is the session itself", "the session that spawns this one")
	case p.Root == child:
		return Invalid("parent.root", "is the session itself", "the session at the top of the tree")
	case p.Depth < 1 || p.Depth > MaxDepth:
		return Invalid("parent.depth", fmt.Sprintf("is %d", p.Depth), fmt.Sprintf("1 to %d", MaxDepth))
	case (p.Depth == 1) != (p.Root == p.SessionID):
		return Invalid("parent.depth", fmt.Sprintf("is %d, with the parent %q and the root %q", p.Depth, p.SessionID, p.Root), "1 if the parent is the root, and more if not")
	}
	return nil
}

// Output is the result of the session workflow.
type Output struct {
	Turns int         `json:"turns"`
	Usage event.Usage `json:"usage"`
	// CostUSD as in State.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// Tokens are those of the session and of its children, with their own children.
	Tokens int64              `json:"tokens,omitempty"`
	Last   *event.QueryResult `json:"last,omitempty"`
	// Outcome is how the last execution ended; "" if there was none.
	Outcome Outcome `json:"outcome,omitempty"`
	// Failure is the last execution's, if it failed.
	Failure *event.ErrorInfo `json:"failure,omitempty"`
}
