package turn

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
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
	// Exit is the end of the agent's process, for the record that says so; else nil.
	Exit *Exit
	// Progress reports whether the agent wrote something or was written something;
	// its log, and what it writes only to show that it runs, is none.
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

// Attached reports where the spool of the agent's present process begins.
type Attached struct {
	Offset int64 `json:"offset"`
}

// Prompted reports that the agent was written the prompt: by this attempt or one
// before.
type Prompted struct{ Span }

// Tick comes every second.
type Tick struct{ Now time.Time }

// SpoolRead answers [CheckSpool]: whether this attempt has read all of the spool.
type SpoolRead struct {
	Now time.Time
	All bool
}

// InterruptRequested is an interrupt from outside. A repeated one changes nothing.
type InterruptRequested struct{ ID, Reason string }

// Interrupting reports that the agent was asked to stop.
type Interrupting struct {
	Reason string
	Now    time.Time
}

// Responded is an answer to a permission request.
type Responded struct {
	RequestID string
	Allow     bool
	Message   string
	Input     json.RawMessage
	// By as in [event.PermissionResolved].
	By string
}

// PolicyChanged is how permission requests are answered from now on.
type PolicyChanged struct{ Policy permission.Policy }

// WaitingTold reports that the workflow knows which requests wait for a person.
type WaitingTold struct{ Requests []string }

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

// Action is something to be done for a running turn. Actions of a step are done in
// their order; one that fails ends the attempt, and the rest is not done.
type Action interface{ action() }

// Place is where events belong: behind the record at Offset, ordered by Index. The
// stream keeps the place of the last events, so that the next attempt skips what it
// has. The zero place is of events that are appended again by no other attempt.
type Place struct {
	Offset int64 `json:"offset"`
	Index  int   `json:"index"`
}

// Append adds events to the stream.
type Append struct {
	Events []event.Event
	Place  Place
}

// TellWaiting signals the workflow which permission requests wait for a person. It
// precedes the events that say so, so that no reader of those finds the session
// running. If it fails it is repeated with the next tick.
type TellWaiting struct{ Requests []string }

// AnswerAgent writes the agent the answer to its permission request. What is not
// the policy's is saved before: an attempt after this one answers the same, and knows
// whose answer it was.
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

// CheckSpool asks whether this attempt has read all of the spool; see [SpoolRead].
type CheckSpool struct{}

// ResumeLater ends the attempt so that the next one resumes behind the span: the
// agent was killed with its runner.
type ResumeLater struct {
	Span
	Resume Resume
}

// RefuseAnswer refuses an answer to a request that is not open.
type RefuseAnswer struct{ RequestID string }

// Finish ends the turn behind the span.
type Finish struct {
	Span
	At     time.Time
	Ending Ending
}

func (Append) action()         {}
func (TellWaiting) action()    {}
func (AnswerAgent) action()    {}
func (InterruptAgent) action() {}
func (TerminateAgent) action() {}
func (KillAgent) action()      {}
func (StopAgent) action()      {}
func (Save) action()           {}
func (CheckSpool) action()     {}
func (ResumeLater) action()    {}
func (RefuseAnswer) action()   {}
func (Finish) action()         {}
