package contract

import (
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// BeginInput opens a run of a session: its record is written and session:initialized is
// appended.
type BeginInput struct {
	Session session.Input `json:"session"`
	// RunID makes a repeated attempt append the run's start once.
	RunID string `json:"runId"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// BeginOutput is the state from which the run starts. For a reopened session the totals and
// the last block are from the record and the archive.
type BeginOutput struct {
	// Epoch was taken for this run.
	Epoch   uint64 `json:"epoch"`
	LastSeq uint64 `json:"lastSeq"`
	// Record is what was known of the session before this run; nil for a new one.
	Record *session.Record `json:"record,omitempty"`
}

// EmitInput appends server events while no turn runs.
type EmitInput struct {
	SessionID string `json:"sessionId"`
	Epoch     uint64 `json:"epoch"`
	LastSeq   uint64 `json:"lastSeq,omitempty"`
	// Key makes a repeated emit safe.
	Key    string        `json:"key"`
	Events []event.Event `json:"events"`
	// Anchor is the last block of the main conversation.
	Anchor string `json:"anchor,omitempty"`
	// TakeEpoch takes the session's next epoch and writes under it, for a run whose own
	// epoch may not be the newest.
	TakeEpoch bool `json:"takeEpoch,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
	// Abort is set when the events end an execution whose host is lost and that is not
	// resumed.
	Abort *Abort `json:"abort,omitempty"`
}

// Abort is an execution that ends because its host was lost.
type Abort struct {
	Agent       string `json:"agent"`
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// Message is the execution's message: the stream and the archive may not have it.
	Message session.Message `json:"message"`
	// AfterSeq is a sequence number before all events of the execution.
	AfterSeq uint64 `json:"afterSeq"`
	// Parked is what the execution waited for when its agent was stopped; nil if it was not.
	Parked *permission.Parked `json:"parked,omitempty"`
	// Parks as in session.Lost.
	Parks int `json:"parks,omitempty"`
	// Steered and Unarchived as in RunTurnInput.
	Steered    []string            `json:"steered,omitempty"`
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Ended is how the execution had ended by its host's last heartbeat, for when the
	// stream was deleted after the end; nil if it had not.
	Ended *session.Result `json:"ended,omitempty"`
}

// EmitOutput is the end of the stream after it.
type EmitOutput struct {
	// Ended is how an aborted execution had ended before its host was lost. Then the
	// input's events were not appended, only those that mark lost blocks.
	Ended *session.Result `json:"ended,omitempty"`
	// Used is what an aborted execution had used, by the stream.
	Used limits.Execution `json:"used,omitzero"`
	// MessageIDs as in session.Result, of an aborted execution.
	MessageIDs []string `json:"messageIds,omitempty"`
	// Epoch is the one under which it was written.
	Epoch       uint64 `json:"epoch,omitempty"`
	LastSeq     uint64 `json:"lastSeq"`
	LastBlockID string `json:"lastBlockId,omitempty"`
}

// Turn returns the output of the execution that the emitted events end with res, or that had
// ended before.
func (out EmitOutput) Turn(res session.Result) RunTurnOutput {
	res.MessageIDs = out.MessageIDs
	if out.Ended != nil {
		res = *out.Ended
	}
	turn := RunTurnOutput{Result: res, LastSeq: out.LastSeq, LastBlockID: out.LastBlockID}
	turn.SetUsed(out.Used)
	return turn
}

// FinishInput closes a run: the record and the list marker are written and session:closed
// is appended.
type FinishInput struct {
	Session session.Input  `json:"session"`
	Epoch   uint64         `json:"epoch"`
	Record  session.Record `json:"record"`
	Reason  string         `json:"reason,omitempty"`
	// Unlisted omits the list marker (spawned sessions).
	Unlisted bool `json:"unlisted,omitempty"`
	// Lost as in CreateSandboxInput, Unarchived as in RunTurnInput: that of a session which
	// ends without another sandbox.
	Lost       *session.Sandbox    `json:"lost,omitempty"`
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// CatchUpInput is the state of a run that is behind its session's stream, most often
// because an operator reset the workflow.
type CatchUpInput struct {
	SessionID string `json:"sessionId"`
	Agent     string `json:"agent"`
	// RunID makes a repeated attempt append its events once.
	RunID string `json:"runId"`
	// LastSeq and Anchor are the run's last known event and block.
	LastSeq uint64 `json:"lastSeq"`
	Anchor  string `json:"anchor,omitempty"`
	// Sandbox is the sandbox that the run believes it has.
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
	// Record asks for the session's record, for a reopened session whose run has not
	// started.
	Record bool `json:"record,omitempty"`
}

// CatchUpOutput is the state of the session by its stream.
type CatchUpOutput struct {
	// Epoch is the newest: that of Sandbox, or one that was taken now.
	Epoch       uint64 `json:"epoch"`
	LastSeq     uint64 `json:"lastSeq"`
	LastBlockID string `json:"lastBlockId,omitempty"`
	LastBlock   string `json:"lastBlock,omitempty"`
	// Sandbox is the live one; nil if there is none.
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
	// Results are the executions that ended, in order. Only the last session.KeptResults
	// have their texts.
	Results []session.Result `json:"results,omitempty"`
	// Running is the execution that started and did not end.
	Running *Running `json:"running,omitempty"`
	// Executions is the highest number of an execution.
	Executions int             `json:"executions,omitempty"`
	Record     *session.Record `json:"record,omitempty"`
	// MinTurn is the last turn in Sandbox that took the fence; the next must be above it.
	MinTurn int `json:"minTurn,omitempty"`
}

// Running is a running execution.
type Running struct {
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// AfterSeq is a sequence number before all events of the execution, and Anchor the last
	// block of the main conversation there.
	AfterSeq uint64 `json:"afterSeq"`
	Anchor   string `json:"anchor,omitempty"`
}
