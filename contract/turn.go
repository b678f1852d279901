package contract

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// RunTurnInput asks to send one message to the agent in the sandbox.
type RunTurnInput struct {
	Agent       Agent           `json:"agent"`
	Sandbox     session.Sandbox `json:"sandbox"`
	ExecutionID string          `json:"executionId"`
	// Turn counts the session's turns, including this one: it grows from one RunTurn to the
	// next, in whatever order messages arrived.
	Turn    int             `json:"turn"`
	Message session.Message `json:"message"`
	// Anchor is the last block of the main conversation before this turn.
	Anchor string `json:"anchor,omitempty"`
	// LastSeq is a sequence number known to be taken: the numbering continues after it even
	// if retention has emptied the stream.
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// NoProgressMS as in session.Options.
	NoProgressMS int64 `json:"noProgressMs,omitempty"`
	// Bounds are those when the turn was scheduled.
	Bounds
	// MaxTicks is how many model calls the message may take; 0 is no limit.
	MaxTicks int `json:"maxTicks,omitempty"`
	// Resumes is set when the execution ran before, on a host that was lost or given up.
	Resumes *session.Lost `json:"resumes,omitempty"`
	// AfterSeq is a sequence number before all events of the execution, if LastSeq is not.
	AfterSeq uint64 `json:"afterSeq,omitempty"`
	// Unarchived is set when an earlier sandbox was lost before the archive had all of its
	// turns.
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Steered are the ids of messages that the agent may have been sent while it worked.
	Steered []string `json:"steered,omitempty"`
	// Reset reports that the workflow was reset: the stream may have more than the run
	// knows. If so the activity does nothing and fails with session.TypeFenced.
	Reset bool `json:"reset,omitempty"`
	// Continues reports whether the previous run left this turn running: that run may have
	// made attempts, which are not counted among this run's.
	Continues bool `json:"continues,omitempty"`
	// Terminated is how the session's workflow ended, if it was ended from outside: the
	// execution is resumed only to be ended, and fails with that. An execution that never
	// started is not started.
	Terminated session.Termination `json:"terminated,omitempty"`
}

// Bounds are a session's limits, and what it has used of them besides its running turn; its
// children's parts count as used.
type Bounds struct {
	Limits limits.Limits `json:"limits,omitzero"`
	Used   limits.Used   `json:"used,omitzero"`
}

// RunTurnOutput is how the turn ended. It is small: bodies are in the stream.
type RunTurnOutput struct {
	Result session.Result `json:"result"`
	// Usage and CostUSD are this turn's.
	Usage   event.Usage `json:"usage"`
	CostUSD *float64    `json:"costUSD,omitempty"`
	// Progress has the turn's ticks and its last tool calls.
	session.Progress
	LastSeq     uint64 `json:"lastSeq"`
	LastBlockID string `json:"lastBlockId,omitempty"`
	// LastBlock describes the last block in a line.
	LastBlock string `json:"lastBlock,omitempty"`
	// ArchiveBehind describes what of the conversation could not be archived yet, NotKept what
	// of the workspace is not.
	ArchiveBehind string `json:"archiveBehind,omitempty"`
	NotKept       string `json:"notKept,omitempty"`
	// AgentExited reports that the agent's process has exited.
	AgentExited bool `json:"agentExited,omitempty"`
	// Parked is set when the turn has not ended: its agent was stopped, and it is resumed
	// when all requests in Parked were answered. There is no Result then.
	Parked *permission.Parked `json:"parked,omitempty"`
}

// OutputOf returns the output of an execution that ended elsewhere, as far as its result has
// it.
func OutputOf(res session.Result) RunTurnOutput {
	out := RunTurnOutput{Result: res}
	out.SetUsed(limits.Execution{})
	return out
}

// SetUsed sets what the execution has used: by its result, or otherwise if that has none.
func (out *RunTurnOutput) SetUsed(otherwise limits.Execution) {
	out.Usage, out.CostUSD, out.Ticks = otherwise.Usage, otherwise.CostUSD, otherwise.Calls
	if r := out.Result.Result; r != nil {
		out.Usage, out.CostUSD, out.Ticks = r.Usage, r.CostUSD, r.Ticks
	}
}

// HeartbeatDetails are what a running turn's heartbeat shows to operators, in the Web UI's
// pending activities. All but Ended is only for display.
type HeartbeatDetails struct {
	session.Progress
	Phase     string `json:"phase"`
	LastBlock string `json:"lastBlock,omitempty"`
	Events    int    `json:"events"`
	Deltas    int    `json:"deltas"`
	Tokens    int64  `json:"tokens"`
	CostUSD   string `json:"cost,omitempty"`
	Seconds   int    `json:"seconds"`
	Waiting   int    `json:"waitingPermissions,omitempty"`
	// Ended is how the execution ended, once its end is in the stream. If the host is lost
	// before the activity completes, the workflow takes it from here.
	Ended *session.Result `json:"ended,omitempty"`
}

// ControlInput is sent to the running turn of a session. Exactly one of the pointers, or
// Events, is set.
type ControlInput struct {
	SessionID   string `json:"sessionId"`
	ExecutionID string `json:"executionId"`
	// ID makes a repeated control safe.
	ID        string                  `json:"id"`
	Interrupt *Interrupt              `json:"interrupt,omitempty"`
	Answer    *session.RespondRequest `json:"answer,omitempty"`
	Options   *Options                `json:"options,omitempty"`
	// Bounds are the session's now, and bind the turn from then on. They come with Options and
	// Events.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Steer is sent to the agent while it works.
	Steer *session.Message `json:"steer,omitempty"`
	// Events are appended by the turn, which is the stream's only writer while it runs.
	Events []event.Event `json:"events,omitempty"`
	// Usage asks what the turn has used.
	Usage bool `json:"usage,omitempty"`
}

// Interrupt stops the turn.
type Interrupt struct {
	Reason string `json:"reason,omitempty"`
}

// Options change the live agent; "" changes nothing.
type Options struct {
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
}

// LiveOptions returns the part of a change that a running agent gets.
func LiveOptions(u event.OptionsUpdate) (o Options) {
	if u.Model != nil {
		o.Model = *u.Model
	}
	if u.PermissionMode != nil {
		o.Permission = adapters.Permission(*u.PermissionMode)
	}
	return o
}

// ControlOutput reports whether the turn took it. Not handed: the turn does not run on this
// host now; it may have ended, or not have started.
type ControlOutput struct {
	Handed bool `json:"handed"`
	// Usage and CostUSD are the turn's until now, if it was asked; CostUSD is nil while unknown.
	Usage   event.Usage `json:"usage,omitzero"`
	CostUSD *float64    `json:"costUSD,omitempty"`
	// Unknown is set by the workflow: no answer came, and the turn may have taken it.
	Unknown bool `json:"-"`
}
