package turn

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
)

// Outcome is how a turn ended.
type Outcome string

// The outcomes, as in the stream's events and in results.
const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// Ending is how a turn ended.
type Ending struct {
	Outcome Outcome
	// StopReason is the agent's own reason.
	StopReason string
	// Failure is why it failed.
	Failure *event.ErrorInfo
	// Exited reports whether the agent's process has exited.
	Exited bool
	// Unheard reports whether the agent may not have stored its prompt, see
	// [event.SessionIdle].
	Unheard bool `json:",omitempty"`
}

func failure(message, code string) *event.ErrorInfo {
	return &event.ErrorInfo{Message: message, Code: code}
}

// idleEnding returns the ending by the agent's own report that it is idle.
func (m *Machine) idleEnding(idle event.SessionIdle) Ending {
	// The turn may have ended by itself before the interrupt of a limit came.
	late := m.Cut != nil && m.Cut.Code == event.CodeLimit && !idle.Interrupted && idle.Error == nil
	switch {
	case m.Terminated != "" && (idle.Interrupted || idle.Error != nil):
		return m.terminated(idle.StopReason)
	case m.Cut != nil && !late:
		return m.cut(Ending{StopReason: idle.StopReason})
	case idle.Interrupted || m.Interrupt != nil && !late:
		return Ending{Outcome: Interrupted, StopReason: idle.StopReason}
	case idle.Error != nil:
		return Ending{Outcome: Failed, StopReason: idle.StopReason, Failure: idle.Error}
	}
	return Ending{Outcome: Completed, StopReason: idle.StopReason}
}

// StopMaxTicks is the stop reason of a turn that made as many model calls as its message
// may.
const StopMaxTicks = "max_ticks"

// cut returns the ending of a turn that Sojourn itself interrupted. A turn that a limit
// interrupted continues when the limit is raised; one at its message's own maximum has
// ended.
func (m *Machine) cut(e Ending) Ending {
	e.Outcome, e.Failure = Failed, m.Cut
	switch m.Cut.Code {
	case event.CodeLimit:
		e.Outcome = Interrupted
	case event.CodeMaxTicks:
		e.Outcome, e.StopReason = Interrupted, StopMaxTicks
	}
	return e
}

// maxStderrShown bounds a failure's excerpt of the agent's log, in bytes.
const maxStderrShown = 500

// exitEnding returns the ending by the exit of the agent's process before its turn had
// ended.
func (m *Machine) exitEnding(how string) Ending {
	switch {
	case m.Terminated != "":
		return m.terminated("killed")
	case m.Cut != nil:
		return m.cut(Ending{StopReason: "killed", Exited: true})
	case m.Interrupt != nil:
		return Ending{Outcome: Interrupted, StopReason: "killed", Exited: true}
	}
	message := fmt.Sprintf("the agent ended in the middle of the turn (%s)", how)
	if said := strings.TrimSpace(m.Summary.Stderr); said != "" {
		message += ": " + brief.Truncate(said, maxStderrShown)
	}
	return Ending{Outcome: Failed, Exited: true, Failure: failure(message, event.CodeAgentFailed)}
}

// terminated returns the ending of a turn whose session's workflow was ended from outside.
func (m *Machine) terminated(stop string) Ending {
	return Ending{Outcome: Failed, StopReason: stop, Exited: true, Failure: failure(m.Terminated, event.CodeTerminated)}
}

// Indexes of a turn's last events: after everything of their record. Between IndexThreads
// and IndexLost each batch of subagents' events has one.
const (
	IndexUsage, IndexThreads = 1<<20 - 1, 1 << 20
	IndexLost                = 1 << 30
	IndexFailure             = IndexLost + 1
	IndexEnd                 = IndexLost + 2
)

// FailureBlock returns the block that shows why the turn failed; nil if the agent itself
// has reported it, or the session's termination record will.
func (m *Machine) FailureBlock(message Message, e Ending, now time.Time) []event.Event {
	if e.Failure == nil || !e.Exited && m.Cut == nil || m.Terminated != "" {
		return nil
	}
	return []event.Event{event.FromServer(event.ErrorBlock("sojourn-"+message.ID+"-failed", *e.Failure), now)}
}

// Result returns the turn's result; nil for one that failed. lastSeq is the number of the
// last event before its end.
func (m *Machine) Result(e Ending, lastSeq uint64) *event.QueryResult {
	if e.Outcome == Failed {
		return nil
	}
	r := m.Summary.Result()
	r.StopReason, r.LastSeq = e.StopReason, lastSeq
	return &r
}

// EndEvent returns the event that ends the execution.
func (m *Machine) EndEvent(message Message, e Ending, lastSeq uint64, now time.Time) event.Event {
	q := event.Query{
		ExecutionID: m.ExecutionID, MessageIDs: append([]string{message.ID}, m.Steered.Taken()...),
		DurationMS: now.Sub(m.Began).Milliseconds(), Error: e.Failure, Result: m.Result(e, lastSeq),
	}
	switch e.Outcome {
	case Completed:
		return event.FromServer(event.QueryCompleted{Query: q}, now)
	case Interrupted:
		q.Reason = m.Reason()
		return event.FromServer(event.QueryInterrupted{Query: q}, now)
	}
	return event.FromServer(event.QueryFailed{Query: q}, now)
}

// Reason returns why the turn was interrupted; "" if no reason is known.
func (m *Machine) Reason() string {
	if m.Interrupt == nil {
		return ""
	}
	return m.Interrupt.Reason
}
