package contract

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// RunTurnInput hands one message to the agent in the sandbox.
type RunTurnInput struct {
	Agent       Agent           `json:"agent"`
	Sandbox     session.Sandbox `json:"sandbox"`
	ExecutionID string          `json:"executionId"`
	// Turn counts the session's turns, this one included: it grows from one
	// RunTurn to the next, whatever the order in which messages came.
	Turn    int             `json:"turn"`
	Message session.Message `json:"message"`
	// Anchor is the last block of the main conversation before this turn.
	Anchor string `json:"anchor,omitempty"`
	// LastSeq is a sequence number known to be taken: the numbering continues
	// after it even when retention has emptied the stream.
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// NoProgressMS as in session.Options.
	NoProgressMS int64 `json:"noProgressMs,omitempty"`
	// Limits are the session's, and Used is what it had used when the turn was
	// scheduled.
	Limits limits.Limits `json:"limits,omitzero"`
	Used   limits.Used   `json:"used,omitzero"`
	// Resumes is set when the execution ran before, on a host that was lost.
	Resumes *session.Lost `json:"resumes,omitempty"`
	// AfterSeq is a sequence number before everything of the execution, if
	// LastSeq is not.
	AfterSeq uint64 `json:"afterSeq,omitempty"`
	// Unarchived is set when an earlier sandbox was lost before the archive had
	// all of its turns.
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Reset reports that the workflow was reset: the stream may have more than it
	// knows. If so the activity does nothing and fails with session.TypeFenced.
	Reset bool `json:"reset,omitempty"`
	// Continues reports whether the run before this one had the turn at work: it
	// may have made attempts, which are not counted among this run's.
	Continues bool `json:"continues,omitempty"`
	// Terminated is how the session's workflow ended, if it did from outside: the
	// execution is resumed only to be ended, and fails with that. One that never
	// began is not begun.
	Terminated session.Termination `json:"terminated,omitempty"`
}

// RunTurnOutput is how the turn ended. It is small: bodies are in the stream.
type RunTurnOutput struct {
	Result session.Result `json:"result"`
	// Usage and CostUSD are this turn's.
	Usage       event.Usage `json:"usage"`
	CostUSD     *float64    `json:"costUSD,omitempty"`
	LastSeq     uint64      `json:"lastSeq"`
	LastBlockID string      `json:"lastBlockId,omitempty"`
	// LastBlock is a line about the last block, for people.
	LastBlock string `json:"lastBlock,omitempty"`
	// ArchiveBehind is what could not be archived yet.
	ArchiveBehind string `json:"archiveBehind,omitempty"`
	// AgentExited reports that the agent's process has exited.
	AgentExited bool `json:"agentExited,omitempty"`
}

// HeartbeatDetails are what a running turn's heartbeat shows to operators, in the Web UI's
// pending activities. Ended alone is more than display.
type HeartbeatDetails struct {
	Phase     string `json:"phase"`
	LastBlock string `json:"lastBlock,omitempty"`
	Events    int    `json:"events"`
	Deltas    int    `json:"deltas"`
	Tokens    int64  `json:"tokens"`
	CostUSD   string `json:"cost,omitempty"`
	Seconds   int    `json:"seconds"`
	Waiting   int    `json:"waitingPermissions,omitempty"`
	// Ended is how the execution ended, once its end is in the stream. A host that
	// is lost before the activity completes leaves it to the workflow.
	Ended *session.Result `json:"ended,omitempty"`
}

// ControlInput reaches the running turn of a session. Exactly one of the
// pointers, or Events, is set.
type ControlInput struct {
	SessionID   string `json:"sessionId"`
	ExecutionID string `json:"executionId"`
	// ID makes a repeated control safe.
	ID        string                  `json:"id"`
	Interrupt *Interrupt              `json:"interrupt,omitempty"`
	Answer    *session.RespondRequest `json:"answer,omitempty"`
	Options   *Options                `json:"options,omitempty"`
	// Events are appended by the turn, which is the stream's one writer while
	// it runs.
	Events []event.Event `json:"events,omitempty"`
}

// Interrupt stops the turn.
type Interrupt struct {
	Reason string `json:"reason,omitempty"`
}

// Options change the live agent; "" leaves a thing as it is.
type Options struct {
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
}

// ControlOutput reports whether the turn took it. Not handed: the turn does not
// run on this host now; it may have ended, or not have begun.
type ControlOutput struct {
	Handed bool `json:"handed"`
}
