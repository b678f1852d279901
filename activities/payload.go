package activities

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// Names of the activities, as the workflows call them.
const (
	NameBegin         = "Begin"
	NameCreateSandbox = "CreateSandbox"
	NameRunTurn       = "RunTurn"
	NameSendControl   = "SendControl"
	NameEmit          = "Emit"
	NameEndSandbox    = "EndSandbox"
	NameFinish        = "Finish"
	NameTakeUp        = "TakeUp"
	NameLookAtDead    = "LookAtDead"
	NameEpitaph       = "WriteEpitaph"
	NameFindDead      = "FindDead"
	NameDescribeHost  = "DescribeHost"
)

// BeginInput opens a run of a session: its record is written and
// session:initialized is appended.
type BeginInput struct {
	Session session.Input `json:"session"`
	// RunID makes a repeated attempt say the run's beginning once.
	RunID string `json:"runId"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// BeginOutput is what the run starts from. For a reopened session the totals
// and the last block come from the record and the archive.
type BeginOutput struct {
	// Epoch was taken for this run.
	Epoch   uint64 `json:"epoch"`
	LastSeq uint64 `json:"lastSeq"`
	// Record is what was known of the session before this run, if it was.
	Record *session.Record `json:"record,omitempty"`
	// Ahead is set when the session had begun before its workflow was reset:
	// nothing was begun anew, and this is how far it came.
	Ahead *TakeUpOutput `json:"ahead,omitempty"`
}

// Agent is what an activity must know of a session's agent.
type Agent struct {
	SessionID  string              `json:"sessionId"`
	Name       string              `json:"name"`
	Profile    string              `json:"profile,omitempty"`
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
	Workspace  string              `json:"workspace,omitempty"`
	// Native counts native sessions, from 1.
	Native int `json:"native"`
}

// CreateSandboxInput asks for a sandbox on the host that picks it up.
type CreateSandboxInput struct {
	Agent Agent `json:"agent"`
	// Restarts counts what was lost before.
	Restarts int `json:"restarts,omitempty"`
	// Lost is the session's sandbox before, if it went with its host and the
	// stream does not say so yet.
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
	// LastSeq is a sequence number known to be taken: the numbering goes on
	// behind it even when retention has emptied the stream.
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// NoProgressMS as in session.Options.
	NoProgressMS int64 `json:"noProgressMs,omitempty"`
	// Resumes is set when the execution ran before, on a host that was lost.
	Resumes *Lost `json:"resumes,omitempty"`
	// AfterSeq is a sequence number before everything of the execution, if
	// LastSeq is not.
	AfterSeq uint64 `json:"afterSeq,omitempty"`
	// Unarchived is set when an earlier sandbox was lost before the archive had
	// all of its turns.
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Reset says that the workflow was reset: there may be more in the stream
	// than it knows of. If so the activity does nothing and fails with
	// session.TypeFenced.
	Reset bool `json:"reset,omitempty"`
	// Continues reports whether the run before this one had the turn at work: it
	// may have made attempts, which are not counted among this run's.
	Continues bool `json:"continues,omitempty"`
	// Abandoned is why the session is dead: the execution is taken up only to
	// be ended, and fails with that. One that never began is not begun.
	Abandoned string `json:"abandoned,omitempty"`
}

// Lost is a host that was lost in the middle of an execution.
type Lost = session.Lost

// RunTurnOutput is how the turn ended. It is small: bodies are in the stream.
type RunTurnOutput struct {
	Result session.Result `json:"result"`
	// Usage and CostUSD are this turn's.
	Usage       event.Usage `json:"usage"`
	CostUSD     *float64    `json:"costUSD,omitempty"`
	LastSeq     uint64      `json:"lastSeq"`
	LastBlockID string      `json:"lastBlockId,omitempty"`
	// LastBlock is the last block in words, for people.
	LastBlock string `json:"lastBlock,omitempty"`
	// ArchiveBehind says what could not be archived yet.
	ArchiveBehind string `json:"archiveBehind,omitempty"`
	// AgentExited says that the agent's process is gone.
	AgentExited bool `json:"agentExited,omitempty"`
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

// ControlOutput says whether the turn took it. Not handed: the turn is not
// running on this host now; it may have ended, or not have begun.
type ControlOutput struct {
	Handed bool `json:"handed"`
}

// EmitInput appends events of Sojourn's own while no turn runs.
type EmitInput struct {
	SessionID string `json:"sessionId"`
	Epoch     uint64 `json:"epoch"`
	LastSeq   uint64 `json:"lastSeq,omitempty"`
	// Key makes a repeated emit safe.
	Key    string        `json:"key"`
	Events []event.Event `json:"events"`
	// Anchor is the last block of the main conversation.
	Anchor string `json:"anchor,omitempty"`
	// TakeEpoch takes the session's next epoch to write under, for a run that
	// can't know whether its own still stands.
	TakeEpoch bool `json:"takeEpoch,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
	// Forsaken is set when the events end an execution whose host is lost and
	// that is not resumed.
	Forsaken *Forsaken `json:"forsaken,omitempty"`
}

// Forsaken is an execution that is given up with its host.
type Forsaken struct {
	Agent       string `json:"agent"`
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// Message is what was asked: it may be stored nowhere else.
	Message session.Message `json:"message"`
	// AfterSeq is a sequence number before everything of the execution.
	AfterSeq uint64 `json:"afterSeq"`
}

// EmitOutput is where the stream stands after it.
type EmitOutput struct {
	// Ended is how a forsaken execution had ended before its host was lost; then
	// the events given were not emitted, only what says what was lost.
	Ended *session.Result `json:"ended,omitempty"`
	// Epoch is the one that was written under.
	Epoch       uint64 `json:"epoch,omitempty"`
	LastSeq     uint64 `json:"lastSeq"`
	LastBlockID string `json:"lastBlockId,omitempty"`
}

// EndSandboxInput archives what the sandbox holds and ends it.
type EndSandboxInput struct {
	Agent   Agent           `json:"agent"`
	Sandbox session.Sandbox `json:"sandbox"`
	// Reason is manual, unhealthy, idle or terminated.
	Reason  string `json:"reason"`
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}

// EndSandboxOutput is where the stream stands after it.
type EndSandboxOutput struct {
	LastSeq uint64 `json:"lastSeq"`
}

// FinishInput closes a run: the record and the list marker are written and
// session:closed is appended.
type FinishInput struct {
	Session session.Input  `json:"session"`
	Epoch   uint64         `json:"epoch"`
	Record  session.Record `json:"record"`
	Reason  string         `json:"reason,omitempty"`
	// Unlisted leaves out the list marker (spawned sessions).
	Unlisted bool `json:"unlisted,omitempty"`
	// Lost as in CreateSandboxInput.
	Lost *session.Sandbox `json:"lost,omitempty"`
	// Reset as in RunTurnInput.
	Reset bool `json:"reset,omitempty"`
}
