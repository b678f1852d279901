package session

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
)

// Status is what a session does now, as far as its workflow knows.
type Status string

const (
	StatusIdle    Status = "idle"
	StatusRunning Status = "running"
	// StatusWaiting: the running turn waits for a person's answer.
	StatusWaiting Status = "waiting"
	// StatusPaused: a limit is reached, and what waits does not run until it is raised.
	StatusPaused Status = "paused"
	StatusClosed Status = "closed"
)

// State is all that the workflow remembers; it is what continue-as-new
// carries. Plain data; it holds no block bodies and no deltas.
type State struct {
	Title      string              `json:"title,omitempty"`
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
	// Permissions and PermissionDeadline as in Options.
	Permissions        permission.Rules           `json:"permissions,omitempty"`
	PermissionDeadline permission.Deadline        `json:"permissionDeadline,omitzero"`
	Metadata           map[string]json.RawMessage `json:"metadata,omitempty"`
	Tags               []string                   `json:"tags,omitempty"`
	// IdleTimeoutMS as in Options, never 0.
	IdleTimeoutMS int64         `json:"idleTimeoutMs"`
	Limits        limits.Limits `json:"limits,omitzero"`

	Queue Queue `json:"queue,omitempty"`
	// Receipts are the last KeptReceipts accepted messages, oldest first.
	Receipts []Receipt `json:"receipts,omitempty"`
	// Spent are the ids of messages that were accepted before those, as hashes.
	Spent SpentIDs `json:"spent,omitempty"`
	// Results are the last KeptResults ended executions, oldest first.
	Results []Result `json:"results,omitempty"`
	// Executions counts the execution ids given out.
	Executions int `json:"executions"`

	// UnderWay is the turn that the run before left at work; nil at a turn's
	// edge.
	UnderWay *UnderWay `json:"underWay,omitempty"`
	// Notices were to be written when the run before made way, oldest first.
	Notices []Notice `json:"notices,omitempty"`

	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// LostSandbox went with its host, and the stream does not say so yet.
	LostSandbox *Sandbox `json:"lostSandbox,omitempty"`
	// Restarts counts sandboxes and agent processes lost.
	Restarts int `json:"restarts,omitempty"`
	// Epoch is the last one taken; taken, never counted.
	Epoch uint64 `json:"epoch,omitempty"`
	// MinTurn is the highest turn that an earlier run may have fenced in this
	// epoch: the next turn's number is above it. 0: none.
	MinTurn int `json:"minTurn,omitempty"`
	// Native counts the native sessions begun.
	Native int `json:"native"`

	Aborted bool        `json:"aborted,omitempty"`
	Turns   int         `json:"turns"`
	Usage   event.Usage `json:"usage"`
	// CostUSD is the cost of the turns and of the children that have ended, with
	// theirs; nil while no agent has reported any.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// WorkMS is how many milliseconds turns have run.
	WorkMS       int64     `json:"workMs,omitempty"`
	LastSeq      uint64    `json:"lastSeq"`
	LastBlockID  string    `json:"lastBlockId,omitempty"`
	LastBlock    string    `json:"lastBlock,omitempty"`
	LastActivity time.Time `json:"lastActivity,omitzero"`
	// Outcome is how the last execution ended; "" before the first one has.
	Outcome Outcome `json:"outcome,omitempty"`
	// Failure is why the last execution failed; nil after a good one.
	Failure *event.ErrorInfo `json:"failure,omitempty"`
	// ArchiveBehind is what the archive still misses; "" when nothing.
	ArchiveBehind string `json:"archiveBehind,omitempty"`
	// Unarchived is where the first turn began that the archive may not have
	// whole; nil when it has all.
	Unarchived *Unarchived `json:"unarchived,omitempty"`
	Children   []Child     `json:"children,omitempty"`
}

// Unarchived is a place in the stream from which on the archive may be behind.
type Unarchived struct {
	AfterSeq uint64 `json:"afterSeq"`
	// Anchor is the last block of the main conversation there.
	Anchor string `json:"anchor,omitempty"`
	// Epoch is that of the sandbox that has what the archive has not.
	Epoch uint64 `json:"epoch"`
}

// Queued is a message that waits for its execution.
type Queued struct {
	Message     Message `json:"message"`
	ExecutionID string  `json:"executionId"`
	// Hold keeps it waiting until something asks to run.
	Hold bool `json:"hold,omitempty"`
}

// Sandbox is where a session's agent lives.
type Sandbox struct {
	Host string `json:"host"`
	ID   string `json:"id"`
	// Provider is the name of the provider that made it.
	Provider string `json:"provider,omitempty"`
	// Epoch is the fence it was made under.
	Epoch uint64 `json:"epoch"`
	// Status is starting, ready, unhealthy or terminated.
	Status string `json:"status"`
}

// Environment is the sandbox in events, in a status.
func (s Sandbox) Environment(status string) event.Environment {
	return event.Environment{SandboxID: s.ID, Host: s.Host, Provider: s.Provider, Epoch: s.Epoch, Status: status}
}

// Child is a spawned session that still lives.
type Child struct {
	SessionID string `json:"sessionId"`
	ToolUseID string `json:"toolUseId"`
	Agent     string `json:"agent"`
}

// Result is how an execution ended. Exactly one of Query.Error and
// Query.Result is set, or Reason for an interrupted one. One that a limit
// interrupted has an Error too, of TypeLimit.
type Result struct {
	ExecutionID string             `json:"executionId"`
	MessageID   string             `json:"messageId"`
	Outcome     Outcome            `json:"outcome"`
	Result      *event.QueryResult `json:"result,omitempty"`
	Error       *event.ErrorInfo   `json:"error,omitempty"`
	Reason      string             `json:"reason,omitempty"`
}

// Outcome is how an execution ended.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// phaseIdle is Inspection.Phase of a session that does nothing.
const phaseIdle = "idle"

// SnapshotVersion is the version of Snapshot's form.
const SnapshotVersion = "1.0"

// Snapshot is the small state that the query snapshot returns.
type Snapshot struct {
	Version   string      `json:"version"`
	SessionID string      `json:"sessionId"`
	Agent     string      `json:"agent"`
	Profile   string      `json:"profile,omitempty"`
	Title     string      `json:"title"`
	Status    Status      `json:"status"`
	Parent    *Parent     `json:"parent,omitempty"`
	Children  []Child     `json:"children"`
	Aborted   bool        `json:"isAborted"`
	Queued    []Message   `json:"queuedMessages"`
	Turns     int         `json:"turns"`
	Usage     event.Usage `json:"usage"`
	// CostUSD as in State.
	CostUSD   *float64  `json:"costUSD,omitempty"`
	LastSeq   uint64    `json:"lastSeq"`
	Sandbox   *Sandbox  `json:"sandbox"`
	Timestamp time.Time `json:"timestamp"`
}

// Inspection is what the query inspect returns: all state without bodies.
type Inspection struct {
	Snapshot
	// Phase is beginning, idle, waiting for a sandbox, turn, waiting (for a person),
	// paused (by a limit), interrupting or closing.
	Phase string `json:"phase"`
	// WaitsFor is what the session waits for that is no agent's work; "" for
	// nothing.
	WaitsFor         string    `json:"waitsFor,omitempty"`
	CurrentExecution string    `json:"currentExecution,omitempty"`
	Options          Options   `json:"options"`
	CreatedAt        time.Time `json:"createdAt"`
	LastBlock        string    `json:"lastBlock,omitempty"`
	// LastOutput is the beginning of the last answer; LastOutputTruncated reports
	// that there is more, in the conversation.
	LastOutput          string `json:"lastOutput,omitempty"`
	LastOutputTruncated bool   `json:"lastOutputTruncated,omitempty"`
	// LastOutcome is how the last execution ended; "" before the first one has.
	LastOutcome Outcome `json:"lastOutcome,omitempty"`

	Failure       *event.ErrorInfo `json:"failure,omitempty"`
	ArchiveBehind string           `json:"archiveBehind,omitempty"`
	Epoch         uint64           `json:"epoch"`
	Restarts      int              `json:"restarts"`
	// Pending are the ids of the permission requests that wait for a person.
	Pending       []string `json:"pendingPermissions"`
	HistoryLength int      `json:"historyLength"`
}
