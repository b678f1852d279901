package turn

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/steering"
)

// Signal is something that happened to a running turn.
type Signal interface{ signal() }

// Span is a range of the spool.
type Span struct {
	Offset int64 `json:"offset"`
	Next   int64 `json:"next"`
}

// Record is the next record of the spool, translated.
type Record struct {
	Span
	// At is when the runner saw it, and Now when it was read.
	At, Now time.Time
	// Exit is the end of the agent's process, if the record reports it; else nil.
	Exit *Exit
	// Progress reports whether the agent wrote output or got input; its log and its
	// keep-alive lines are no progress.
	Progress bool
	Events   []event.Event
	// Refused is why the agent will never take what is due; "" if it will.
	Refused string
}

// Unreadable is a part of the spool that can't be read.
type Unreadable struct {
	Span
	// SandboxID and Why are for the conversation.
	SandboxID, Why string
	Now            time.Time
}

// Attached reports where the agent's present process starts in the spool.
type Attached struct {
	Offset int64 `json:"offset"`
}

// Prompted reports that the prompt was written to the agent, by this attempt or an earlier
// one.
type Prompted struct{ Span }

// Tick is sent every second.
type Tick struct{ Now time.Time }

// SpoolRead answers [CheckSpool]: whether this attempt has read all of the spool.
type SpoolRead struct {
	Now time.Time
	All bool
}

// InterruptRequested is an interrupt from outside. A repeated one changes nothing.
type InterruptRequested struct{ ID, Reason string }

// Interrupting reports that the agent was asked to stop. Waits is how long it may still take
// until an agent that starts can be asked; 0 if it was.
type Interrupting struct {
	Reason string
	Now    time.Time
	Waits  time.Duration
}

// Responded is an answer to a permission request.
type Responded struct {
	RequestID string
	Allow     bool
	Message   string
	Input     json.RawMessage
	// By is as in [event.PermissionResolved].
	By string
}

// PolicyChanged is how permission requests are answered from now on.
type PolicyChanged struct{ Policy permission.Policy }

// SteerRequested is a message for the working agent. A repeated one changes nothing.
type SteerRequested struct{ Message steering.Message }

// SteerRefused reports that the agent can't take a message of [SteerAgent].
type SteerRefused struct{ ID string }

// WaitingTold reports that the workflow was sent the requests that wait for a person.
type WaitingTold struct{ Requests []string }

// Withheld reports that the agent is not prompted to resume, since calls of it have an
// unknown effect: a person is asked first, or the turn ends.
type Withheld struct {
	Resume
	// RequestID is the id of the question to a person.
	RequestID string
}

func (Record) signal()             {}
func (Unreadable) signal()         {}
func (Attached) signal()           {}
func (Prompted) signal()           {}
func (Tick) signal()               {}
func (SpoolRead) signal()          {}
func (InterruptRequested) signal() {}
func (Interrupting) signal()       {}
func (Responded) signal()          {}
func (PolicyChanged) signal()      {}
func (WaitingTold) signal()        {}
func (SteerRequested) signal()     {}
func (SteerRefused) signal()       {}
func (Withheld) signal()           {}

// Action is something to do for a running turn. Actions of a step are done in order; one
// that fails ends the attempt, and the rest is not done.
type Action interface{ action() }

// Place is where events are in the spool: after the record at Offset, ordered by Index. The
// stream keeps the place of the last events, so that the next attempt skips what it has.
// The zero place is for events that no other attempt appends again.
type Place struct {
	Offset int64 `json:"offset"`
	Index  int   `json:"index"`
}

// Append adds events to the stream.
type Append struct {
	Events []event.Event
	Place  Place
}

// ReportWaiting signals to the workflow which permission requests wait for a person. It
// precedes the events about them, so that no reader of those finds the session running. If
// it fails it is repeated with the next tick.
type ReportWaiting struct{ Requests []string }

// AnswerAgent writes the answer to its permission request to the agent. Answers that are
// not the policy's are saved before: a later attempt answers the same, with the same
// author.
type AnswerAgent struct {
	RequestID string
	Allow     bool
	Message   string
	Input     json.RawMessage
	By        string
}

// InterruptAgent asks the agent to stop, under an id that is written once; see
// [Interrupting].
type InterruptAgent struct{ ID, Reason string }

// TerminateAgent sends the agent a termination signal, and KillAgent kills it.
// Neither fails the attempt.
type (
	TerminateAgent struct{}
	KillAgent      struct{}
)

// StopAgent ends the agent's process.
type StopAgent struct{}

// Save saves what the checkpoint has of the machine: Cut and Interrupt.
type Save struct{}

// CheckSpool checks whether this attempt has read all of the spool; see [SpoolRead].
type CheckSpool struct{}

// ResumeLater ends the attempt so that the next one resumes after the span: the agent was
// killed with its runner.
type ResumeLater struct {
	Span
	Resume Resume
}

// Park ends the attempt so that the turn is parked, after what was read of the spool: the
// agent is stopped, and the turn waits for a person without it.
type Park struct {
	Read   int64             `json:"read"`
	Parked permission.Parked `json:"parked"`
}

// RefuseAnswer refuses an answer to a request that is not open.
type RefuseAnswer struct{ RequestID string }

// SteerAgent writes a message to the working agent, once. It is saved before, so that a
// later attempt can read what the agent has.
type SteerAgent struct{ Message steering.Message }

// RefuseSteer refuses a message: the agent can't take it now, and it has to wait for its
// own turn.
type RefuseSteer struct{ ID string }

// Finish ends the turn after the span.
type Finish struct {
	Span
	At     time.Time
	Ending Ending
}

// AskAgent sends the agent the withheld prompt.
type AskAgent struct{}

// SaveAnswer saves for later attempts who answered, as AnswerAgent does.
type SaveAnswer struct{ RequestID string }

// Emit adds server events without a place in the spool, once per key.
type Emit struct {
	Key      string
	Payloads []event.Payload
}

func (AskAgent) action()       {}
func (SaveAnswer) action()     {}
func (Emit) action()           {}
func (Append) action()         {}
func (ReportWaiting) action()  {}
func (AnswerAgent) action()    {}
func (InterruptAgent) action() {}
func (TerminateAgent) action() {}
func (KillAgent) action()      {}
func (StopAgent) action()      {}
func (Save) action()           {}
func (CheckSpool) action()     {}
func (ResumeLater) action()    {}
func (Park) action()           {}
func (RefuseAnswer) action()   {}
func (SteerAgent) action()     {}
func (RefuseSteer) action()    {}
func (Finish) action()         {}
