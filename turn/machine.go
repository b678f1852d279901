package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
)

// Machine decides what a running turn does: a signal in, actions out. It does no
// I/O and reads no clock, so a turn is what its signals were. One machine serves one
// attempt. Not safe for concurrent use.
//
//	starting → prompted → (interrupting) → ended
//
// An attempt may read records of an earlier process of the agent first, and may
// learn only behind them where the prompt is in the spool; LastIdle and LastExit keep
// what they have shown until then.
type Machine struct {
	Config
	// Had is how far the attempts before have streamed this sandbox's spool; nil for
	// nothing. What belongs at or before it is not appended again.
	Had *Place `json:"had,omitempty"`
	// Process is where the agent's present process begins in the spool; nil before it is
	// attached to. Prompt is where the prompt is; nil until it was written.
	Process *int64 `json:"process,omitempty"`
	Prompt  *Span  `json:"prompt,omitempty"`
	// Read is the offset up to which the spool was read.
	Read int64 `json:"read"`
	// LastIdle is the latest idle event before the prompt's place was known.
	LastIdle *Idle `json:"lastIdle,omitempty"`
	// LastExit is the latest exit of a process of the agent.
	LastExit *Exit `json:"lastExit,omitempty"`
	// LastProgress is when the agent last made progress, by its records' own times:
	// whichever worker reads them, silence counts from the same moment.
	LastProgress time.Time `json:"lastProgress,omitzero"`

	// Policy answers permission requests.
	Policy permission.Policy `json:"policy"`
	// Asked are the open permission requests, Answers what was answered to which: by
	// this attempt, or before by anybody but the policy.
	Asked   map[string]Asked     `json:"asked,omitempty"`
	Answers map[string]Responded `json:"answers,omitempty"`
	// Waiting are the open requests that only a person can answer, Told those that the
	// workflow knows of; TellAnyway is set while that is not known, because an attempt
	// before may have told it something else.
	Waiting    []string `json:"waiting,omitempty"`
	Told       []string `json:"told,omitempty"`
	TellAnyway bool     `json:"tellAnyway,omitempty"`

	// Interrupt is the interrupt under way; nil for none.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Cut is what the turn fails with that Sojourn itself interrupts.
	Cut *event.ErrorInfo `json:"cut,omitempty"`
	// Concluded is the end that the stream has of the execution; nil for none. Then
	// the spool is only read up to it.
	Concluded *Ending `json:"concluded,omitempty"`
	// HasServer reports whether the stream may have server blocks of this turn.
	HasServer bool `json:"hasServer,omitempty"`

	Summary Summary `json:"-"`
}

// Config is what does not change in an attempt.
type Config struct {
	ExecutionID string `json:"executionId"`
	// Terminated is why the session's workflow is gone; "" while it is open. Such a
	// turn fails with it unless the agent had completed it.
	Terminated string `json:"terminated,omitempty"`
	// Patience is how long the agent may make no progress.
	Patience time.Duration `json:"patience"`
	// Limits are the session's, and Used is what it had used when the attempt began.
	Limits limits.Limits `json:"limits,omitzero"`
	Used   limits.Used   `json:"used,omitzero"`
	// Began is when the attempt began.
	Began time.Time `json:"began"`
	// Resumes counts the losses of the execution before this attempt.
	Resumes int `json:"resumes,omitempty"`
}

// Asked is an open permission request.
type Asked struct {
	event.PermissionRequested
	At time.Time `json:"at"`
}

// Idle is the agent's own report that it is idle, and its place.
type Idle struct {
	Event  event.SessionIdle `json:"event"`
	Offset int64             `json:"offset"`
}

// Exit is the end of a process of the agent, and its place.
type Exit struct {
	// How is the runner's word for it: an exit code or a signal.
	How    string `json:"how"`
	Offset int64  `json:"offset"`
	// WithRunner reports whether the process was killed with its runner.
	WithRunner bool `json:"withRunner,omitempty"`
}

// NewMachine begins an attempt.
func NewMachine(c Config, after string) *Machine {
	return &Machine{
		Config: c, Asked: map[string]Asked{}, Answers: map[string]Responded{}, Summary: NewSummary(after),
	}
}

// Step takes a signal and returns what is to be done, in order.
func (m *Machine) Step(s Signal) []Action {
	switch s := s.(type) {
	case Record:
		return m.record(s)
	case Unreadable:
		return m.unreadable(s)
	case Attached:
		m.Process = &s.Offset
	case Prompted:
		m.Prompt = &s.Span
	case Tick:
		return m.tick(s.Now)
	case SpoolRead:
		return m.spoolRead(s)
	case InterruptRequested:
		return m.requestInterrupt(s)
	case Interrupting:
		m.ContinueInterrupt(s.Reason, s.Now, s.Now)
		return []Action{Save{}}
	case Responded:
		return m.respond(s)
	case PolicyChanged:
		m.Policy = s.Policy
	case WaitingTold:
		m.TellAnyway, m.Told = false, s.Requests
	}
	return nil
}

// Has reports whether an attempt before has appended what belongs at a place.
func (m *Machine) Has(p Place) bool {
	return m.Had != nil && (p.Offset < m.Had.Offset || p.Offset == m.Had.Offset && p.Index <= m.Had.Index)
}

// record passes on what the stream does not have, answers requests by the policy,
// and judges whether the turn has ended.
func (m *Machine) record(r Record) []Action {
	m.Read = r.Next
	if at := earlier(r.At, r.Now); r.Progress && at.After(m.LastProgress) {
		m.LastProgress = at
	}
	if r.Exit != nil {
		m.LastExit = r.Exit
	}
	m.track(r.Events, earlier(r.At, r.Now))
	if m.Concluded != nil {
		return m.conclude(r)
	}
	var do []Action
	if place := (Place{r.Offset, len(r.Events)}); len(r.Events) > 0 && !m.Has(place) {
		do = append(m.tellWaiting(), Append{r.Events, place})
	}
	var end *Ending
	for _, ev := range r.Events {
		m.Summary.Add(ev)
		do = append(do, m.byPolicy(ev)...)
		if idle, ok := ev.Payload.(event.SessionIdle); ok && ev.Context.Conversation() == event.Main {
			end = m.idle(idle, r.Offset, end)
		}
	}
	return append(do, m.judge(r, end)...)
}

// conclude reads up to the end that the stream has.
func (m *Machine) conclude(r Record) []Action {
	for _, ev := range r.Events {
		m.Summary.Add(ev)
	}
	if m.Had == nil || r.Offset < m.Had.Offset {
		return nil
	}
	return []Action{Finish{r.Span, r.At, *m.Concluded}}
}

// earlier is at, or now for a clock that is ahead and for no time at all.
func earlier(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// idle takes the agent's report that it is idle: the end of the turn if it follows
// the prompt.
func (m *Machine) idle(idle event.SessionIdle, offset int64, end *Ending) *Ending {
	if m.Prompt == nil {
		m.LastIdle = &Idle{idle, offset}
		return end
	}
	if offset < m.Prompt.Offset {
		return end
	}
	e := m.idleEnding(idle)
	return &e
}

// judge returns the turn's end, if this record makes one known.
func (m *Machine) judge(r Record, end *Ending) []Action {
	finish := func(e Ending, before ...Action) []Action { return append(before, Finish{r.Span, r.At, e}) }
	switch {
	case end != nil:
		return finish(*end)
	case m.LastIdle != nil && m.Prompt != nil && m.LastIdle.Offset >= m.Prompt.Offset:
		// A process answered that has exited since, while no attempt was there. The
		// present one was told of a prompt that it does not have: it is ended too.
		e := m.idleEnding(m.LastIdle.Event)
		e.Exited = true
		return finish(e, StopAgent{})
	case m.agentExited() && m.LastExit.WithRunner && m.Terminated == "":
		return m.loseRunner(r)
	case m.agentExited():
		return finish(m.exitEnding(m.LastExit.How))
	case r.Refused != "":
		// Another process may be able to take it.
		return finish(Ending{Outcome: Failed, Exited: true, Failure: failure(r.Refused, event.CodeAgentFailed)}, StopAgent{})
	}
	return nil
}

// agentExited reports whether the process that owes the answer has exited. It may
// have exited while no attempt was there: then its exit is read before the runner
// says that the prompt was written to it.
func (m *Machine) agentExited() bool {
	if m.LastExit == nil {
		return false
	}
	return m.Process != nil && m.LastExit.Offset >= *m.Process || m.Prompt != nil && m.LastExit.Offset >= m.Prompt.Offset
}

// loseRunner resumes the turn in another attempt, unless that happened too often.
func (m *Machine) loseRunner(r Record) []Action {
	if m.Resumes >= MaxResumes || m.Interrupt != nil {
		return []Action{Finish{r.Span, r.At, m.exitEnding("with its runner")}}
	}
	return []Action{ResumeLater{r.Span, Resume{Times: m.Resumes + 1, Why: "the agent was killed with its runner"}}}
}

// unreadable says once in the conversation that a part of the spool can't be read.
// The turn continues, as its agent does.
func (m *Machine) unreadable(u Unreadable) []Action {
	m.Read, m.HasServer = u.Next, true
	place := Place{u.Offset, 1}
	if m.Has(place) {
		return nil
	}
	notice := event.SystemBlock(fmt.Sprintf("sojourn-%s-damaged-%d", u.SandboxID, u.Offset), "damaged",
		"a part of what the agent said is left out, as it can't be read: "+u.Why)
	return []Action{Append{[]event.Event{event.FromServer(notice, u.Now)}, place}}
}

// track keeps the open permission requests, and adds who answered them.
func (m *Machine) track(events []event.Event, at time.Time) {
	for i, ev := range events {
		switch p := ev.Payload.(type) {
		case event.PermissionRequested:
			m.Asked[p.RequestID] = Asked{p, at}
			if answer, _ := m.Policy.Answer(p); forAPerson(answer) && !slices.Contains(m.Waiting, p.RequestID) {
				m.Waiting = append(slices.Clone(m.Waiting), p.RequestID)
			}
		case event.PermissionResolved:
			events[i].Payload = m.whose(p)
			delete(m.Asked, p.RequestID)
			m.stopWaiting(p.RequestID)
		}
	}
}

func (m *Machine) stopWaiting(request string) {
	m.Waiting = slices.DeleteFunc(slices.Clone(m.Waiting), func(have string) bool { return have == request })
}

// tellWaiting signals the workflow which requests wait for a person, unless it knows.
func (m *Machine) tellWaiting() []Action {
	if !m.TellAnyway && slices.Equal(m.Waiting, m.Told) {
		return nil
	}
	return []Action{TellWaiting{m.Waiting}}
}
