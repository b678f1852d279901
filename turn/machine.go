package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/limits/prices"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/steering"
	"github.com/sojourn-run/sojourn/turn/summary"
)

// Machine decides what a running turn does: a signal in, actions out. It does no I/O and
// reads no clock, so its signals determine the turn. One machine serves one attempt. Not
// safe for concurrent use.
//
//	starting → prompted → (interrupting) → ended
//
// An attempt may read records of an earlier process of the agent first, and may learn only
// after them where the prompt is in the spool; LastIdle and LastExit keep what they have
// shown until then.
type Machine struct {
	Config
	// Had is how far earlier attempts have streamed this sandbox's spool; nil for nothing.
	// Events at or before it are not appended again.
	Had *Place `json:"had,omitempty"`
	// Process is where the agent's present process starts in the spool; nil before it is
	// attached to. Prompt is where the prompt is; nil until it was written.
	Process *int64 `json:"process,omitempty"`
	Prompt  *Span  `json:"prompt,omitempty"`
	// Read is the offset up to which the spool was read.
	Read int64 `json:"read"`
	// LastIdle is the latest idle event before the prompt's place was known.
	LastIdle *Idle `json:"lastIdle,omitempty"`
	// LastExit is the latest exit of a process of the agent.
	LastExit *Exit `json:"lastExit,omitempty"`
	// LastProgress is when the agent last made progress, by its records' own times: silence
	// is the same for whichever worker reads them.
	LastProgress time.Time `json:"lastProgress,omitzero"`
	// Answered reports whether the last request was answered since the last tick.
	Answered bool `json:"answered,omitempty"`

	// Policy answers permission requests.
	Policy permission.Policy `json:"policy"`
	// Asked are the open permission requests, Answers the answers by request: of this
	// attempt, or of earlier ones if not by the policy.
	Asked   map[string]Asked     `json:"asked,omitempty"`
	Answers map[string]Responded `json:"answers,omitempty"`
	// Waiting are the open requests that only a person can answer, Reported those that the
	// workflow was sent; ReportAnyway is set while that is unknown, because an earlier
	// attempt may have sent others.
	Waiting      []string `json:"waiting,omitempty"`
	Reported     []string `json:"reported,omitempty"`
	ReportAnyway bool     `json:"reportAnyway,omitempty"`

	// Steered are the messages that the agent was sent while it worked.
	Steered steering.Messages `json:"steered,omitempty"`
	// Held is the resume that is withheld from the agent; nil for none.
	Held *Withheld `json:"held,omitempty"`
	// Interrupt is the running interrupt; nil for none.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Cut is the failure of the turn when Sojourn itself interrupts it.
	Cut *event.ErrorInfo `json:"cut,omitempty"`
	// Concluded is the stream's end of the execution; nil for none. If set, the spool is
	// only read up to it.
	Concluded *Ending `json:"concluded,omitempty"`
	// HasServer reports whether the stream may have server blocks of this turn.
	HasServer bool `json:"hasServer,omitempty"`

	// Limits are the session's, and Used is what it has used besides this attempt.
	Limits limits.Limits `json:"limits,omitzero"`
	Used   limits.Used   `json:"used,omitzero"`

	Summary summary.Summary `json:"-"`
}

// Config is what does not change in an attempt.
type Config struct {
	ExecutionID string `json:"executionId"`
	// Terminated is how the session's workflow was ended; "" while it is open. Such a turn
	// fails with it unless the agent had completed it.
	Terminated string `json:"terminated,omitempty"`
	// Patience is how long the agent may make no progress.
	Patience time.Duration `json:"patience"`
	// Prices put a cost on the reports of an agent that reports none.
	Prices prices.Meter `json:"prices,omitzero"`
	// MaxTicks is how many model calls the message may take; 0 is no limit.
	MaxTicks int `json:"maxTicks,omitempty"`
	// TicksBefore is how many of them were made before the turn was parked. With the answer
	// it may make one in any case.
	TicksBefore int `json:"ticksBefore,omitempty"`
	// Began is when the attempt started.
	Began time.Time `json:"began"`
	// Folders are the paths of the sandbox: requests that differ only in them are the same.
	Folders []string `json:"folders,omitempty"`
	// Resume is how the execution continues after a loss; the zero value before one.
	Resume Resume `json:"resume,omitzero"`
	// Steers reports whether the agent can be sent messages while it works.
	Steers bool `json:"steers,omitempty"`
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
	// How is the runner's description: an exit code or a signal.
	How    string `json:"how"`
	Offset int64  `json:"offset"`
	// WithRunner reports whether the process was killed with its runner.
	WithRunner bool `json:"withRunner,omitempty"`
}

// NewMachine creates the machine of an attempt.
func NewMachine(c Config, after string) *Machine {
	return &Machine{
		Config: c, Asked: map[string]Asked{}, Answers: map[string]Responded{}, Summary: summary.New(after),
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
		return m.steerAgain()
	case Tick:
		return m.tick(s.Now)
	case SpoolRead:
		return m.spoolRead(s)
	case InterruptRequested:
		return m.requestInterrupt(s)
	case Interrupting:
		m.ContinueInterrupt(s.Reason, s.Now.Add(s.Waits), s.Now)
		return []Action{Save{}}
	case Responded:
		return m.respond(s)
	case SteerRequested:
		return m.steer(s.Message)
	case SteerRefused:
		m.Steered = m.Steered.Without(s.ID)
	case PolicyChanged:
		m.Policy = s.Policy
	case Withheld:
		return m.withhold(s)
	case WaitingTold:
		m.ReportAnyway, m.Reported = false, s.Requests
	}
	return nil
}

// Has reports whether an earlier attempt has appended the events of a place.
func (m *Machine) Has(p Place) bool {
	return m.Had != nil && (p.Offset < m.Had.Offset || p.Offset == m.Had.Offset && p.Index <= m.Had.Index)
}

// record appends what the stream does not have, answers requests by the policy, and decides
// whether the turn has ended.
func (m *Machine) record(r Record) []Action {
	m.Read = r.Next
	r.Events = m.Prices.Priced(r.Events)
	if at := earlier(r.At, r.Now); r.Progress && at.After(m.LastProgress) {
		m.LastProgress = at
	}
	if r.Exit != nil {
		m.LastExit = r.Exit
	}
	m.track(r.Events, earlier(r.At, r.Now))
	again := m.trackSteered(r)
	if m.Concluded != nil {
		return m.conclude(r)
	}
	var do []Action
	if place := (Place{r.Offset, len(r.Events)}); len(r.Events) > 0 && !m.Has(place) {
		do = append(m.reportWaiting(), Append{r.Events, place})
		do = append(do, again...)
	}
	var end *Ending
	for _, ev := range r.Events {
		m.Summary.Add(ev)
		do = append(do, m.answerKnown(ev)...)
		if call, ok := ev.Payload.(event.MetadataUpdate); ok && call.Calls > 0 && m.Prompt != nil {
			do = append(do, m.byLimit(r.Now)...)
		}
		if idle, ok := ev.Payload.(event.SessionIdle); ok && ev.Context.Conversation() == event.Main {
			end = m.idle(idle, r.Offset, end)
		}
	}
	return append(do, m.judge(r, end)...)
}

// conclude reads up to the stream's end.
func (m *Machine) conclude(r Record) []Action {
	for _, ev := range r.Events {
		m.Summary.Add(ev)
	}
	if m.Had == nil || r.Offset < m.Had.Offset {
		return nil
	}
	return []Action{Finish{r.Span, r.At, *m.Concluded}}
}

// earlier returns at, or now if at is in the future or zero.
func earlier(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// idle handles the agent's report that it is idle: the end of the turn if it follows the
// prompt.
func (m *Machine) idle(idle event.SessionIdle, offset int64, end *Ending) *Ending {
	if m.Prompt == nil {
		m.LastIdle = &Idle{idle, offset}
		return end
	}
	e := m.idleEnding(idle)
	e.Unheard = idle.Unheard
	switch {
	case offset < m.Prompt.Offset, m.Had != nil && m.Had.Offset > offset:
		return end // of another turn, or an earlier attempt continued after it
	case e.Outcome == Completed && m.Steered.Pending() && m.Terminated == "":
		return end // it takes what it was sent, and is idle again
	}
	return &e
}

// judge returns the turn's end, if this record shows it.
func (m *Machine) judge(r Record, end *Ending) []Action {
	finish := func(e Ending, before ...Action) []Action { return append(before, Finish{r.Span, r.At, e}) }
	switch {
	case end != nil && (end.Unheard || m.Steered.Pending() || m.Interrupt != nil && m.Interrupt.Steps > 0):
		// It may drop what it has not taken, or start with it. One that was interrupted too
		// early may count a prompt that is not in its transcript. One that was terminated ends.
		end.Exited = true
		return finish(*end, StopAgent{})
	case end != nil:
		return finish(*end)
	case m.LastIdle != nil && m.Prompt != nil && m.LastIdle.Offset >= m.Prompt.Offset:
		// A process answered and has exited, while no attempt ran. The present one was sent
		// a prompt id that it does not have: it is ended too.
		e := m.idleEnding(m.LastIdle.Event)
		e.Exited = true
		return finish(e, StopAgent{})
	case m.agentExited() && m.LastExit.WithRunner && m.Terminated == "":
		return m.loseRunner(r)
	case m.agentExited():
		return finish(m.exitEnding(m.LastExit.How), m.cancelHeld()...)
	case r.Refused != "":
		// Another process may be able to take it.
		return finish(Ending{Outcome: Failed, Exited: true, Failure: failure(r.Refused, event.CodeAgentFailed)}, StopAgent{})
	}
	return nil
}

// agentExited reports whether the process that owes the answer has exited. It may have
// exited while no attempt ran: then its exit is read before the runner reports that the
// prompt was written to it.
func (m *Machine) agentExited() bool {
	if m.LastExit == nil {
		return false
	}
	return m.Process != nil && m.LastExit.Offset >= *m.Process || m.Prompt != nil && m.LastExit.Offset >= m.Prompt.Offset
}

// loseRunner resumes the turn in another attempt, unless that happened too often.
func (m *Machine) loseRunner(r Record) []Action {
	if m.Resume.Times-m.Resume.Parks >= MaxResumes || m.Interrupt != nil {
		return []Action{Finish{r.Span, r.At, m.exitEnding("with its runner")}}
	}
	next := m.Resume
	next.Times, next.Why = next.Times+1, "the agent was killed with its runner"
	return append(m.cancelHeld(), ResumeLater{r.Span, next})
}

// unreadable reports once in the conversation that a part of the spool can't be read. The
// turn continues, as its agent does.
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

// track maintains the open permission requests, and adds who answered them.
func (m *Machine) track(events []event.Event, at time.Time) {
	for i, ev := range events {
		switch p := ev.Payload.(type) {
		case event.PermissionRequested:
			m.Asked[p.RequestID] = Asked{p, at}
			if _, known := m.known(p); !known && !slices.Contains(m.Waiting, p.RequestID) {
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
	waited := len(m.Waiting) > 0
	m.Waiting = slices.DeleteFunc(slices.Clone(m.Waiting), func(have string) bool { return have == request })
	m.Answered = m.Answered || waited && len(m.Waiting) == 0
}

// reportWaiting signals to the workflow which requests wait for a person, if that changed.
func (m *Machine) reportWaiting() []Action {
	if !m.ReportAnyway && slices.Equal(m.Waiting, m.Reported) {
		return nil
	}
	return []Action{ReportWaiting{m.Waiting}}
}
