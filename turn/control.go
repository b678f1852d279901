package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/steering"
)

// Interrupt is a running interrupt: the agent is asked to stop, then terminated, then
// killed.
type Interrupt struct {
	Reason string `json:"reason,omitempty"`
	// Steps counts the harder steps that were taken or were due, and Due is when the next
	// one is.
	Steps int       `json:"steps"`
	Due   time.Time `json:"due"`
}

// stopPatience is the time between the steps of an interrupt.
const stopPatience = 10 * time.Second

// ContinueInterrupt continues an interrupt that the agent was sent at a time, perhaps by an
// earlier attempt, or is sent then at the latest: steps that were due since count as taken,
// so changing attempts don't postpone the next one. That one waits long enough for this
// attempt to read that the agent has stopped.
func (m *Machine) ContinueInterrupt(reason string, at, now time.Time) {
	steps := max(now.Sub(at), 0) / stopPatience
	due := at.Add((steps + 1) * stopPatience).Sub(now)
	m.Interrupt = &Interrupt{Reason: reason, Steps: int(steps), Due: now.Add(max(due, stopPatience/5))}
}

func (m *Machine) requestInterrupt(r InterruptRequested) []Action {
	if m.Interrupt != nil || m.Concluded != nil {
		return nil
	}
	if m.Held != nil {
		m.Interrupt = &Interrupt{Reason: r.Reason}
		return append(m.cancelHeld(), Save{}, StopAgent{})
	}
	return []Action{InterruptAgent(r)}
}

// tick takes the next step of an interrupt, and interrupts an agent that makes no progress.
// Waiting for a person does not count against the agent.
func (m *Machine) tick(now time.Time) []Action {
	if m.Concluded != nil {
		return nil
	}
	do := append(m.byDeadline(now), m.reportWaiting()...)
	if m.Interrupt != nil {
		return append(do, m.escalate(now)...)
	}
	if cut := m.byLimit(now); cut != nil {
		return append(do, cut...)
	}
	if m.LastProgress.IsZero() {
		m.LastProgress = m.Began
	}
	if m.Answered {
		m.Answered, m.LastProgress = false, now // the agent's silence begins again
	}
	if m.silent(now) {
		do = append(do, CheckSpool{})
	}
	return do
}

// silent reports whether the agent has made no progress for too long. While a person is
// waited for, too long is the time after which a turn is parked.
func (m *Machine) silent(now time.Time) bool {
	patience := m.Patience
	if len(m.Waiting) > 0 || m.Held != nil {
		patience = m.Policy.Park.After()
		if patience == 0 || len(m.Waiting) == 0 || m.Resume.Parks >= MaxParks || m.Terminated != "" {
			return false
		}
	}
	return !m.Answered && now.Sub(m.LastProgress) >= patience
}

// byLimit interrupts a turn that has reached a limit. The running model call doesn't count
// yet: a turn that ends with its last allowed call ends by itself.
func (m *Machine) byLimit(now time.Time) []Action {
	used := m.Used.Add(m.Summary.Usage, m.Summary.CostUSD, now.Sub(m.Began))
	used.Calls += m.Summary.Done()
	switch over := m.Limits.Reached(used); {
	case m.Interrupt != nil:
		return nil
	case m.MaxTicks > 0 && min(m.TicksBefore, m.MaxTicks-1)+m.Summary.Done() >= m.MaxTicks:
		m.Cut = failure(fmt.Sprintf("the message's %d model calls are made", m.MaxTicks), event.CodeMaxTicks)
	case over != "":
		m.Cut = failure(over, event.CodeLimit)
	default:
		return nil
	}
	return m.requestInterrupt(InterruptRequested{ID: "limit-" + m.ExecutionID, Reason: m.Cut.Message})
}

func (m *Machine) escalate(now time.Time) []Action {
	if now.Before(m.Interrupt.Due) {
		return nil
	}
	m.Interrupt.Steps++
	m.Interrupt.Due = now.Add(stopPatience)
	if m.Interrupt.Steps == 1 {
		return []Action{TerminateAgent{}}
	}
	return []Action{KillAgent{}}
}

// spoolRead parks a turn whose agent waits for a person, and interrupts any other silent
// one. An attempt that has not read all of the spool can't judge that.
func (m *Machine) spoolRead(s SpoolRead) []Action {
	if !s.All || m.Interrupt != nil || !m.silent(s.Now) {
		return nil
	}
	if len(m.Waiting) > 0 {
		p := permission.Parked{Since: s.Now.UTC(), Deadline: m.Policy.Deadline, Folders: m.Folders}
		for _, id := range m.Waiting {
			p.Add(m.Asked[id].PermissionRequested, m.Asked[id].At)
		}
		if m.Held != nil {
			p.Decisions = m.Resume.Decisions // the agent was not sent them
		}
		return []Action{Park{m.Read, p}}
	}
	m.Cut = failure(fmt.Sprintf("the agent said nothing for %s: the turn was ended", m.Patience), event.CodeNoProgress)
	return m.requestInterrupt(InterruptRequested{ID: "no-progress-" + m.ExecutionID, Reason: "no progress"})
}

// forAPerson reports whether only a person can answer.
func forAPerson(a permission.Answer) bool { return a != permission.Allow && a != permission.Deny }

// known returns the answer to a request that needs no person: it was decided while the turn
// was parked, or the rules and the standing policy answer it.
func (m *Machine) known(p event.PermissionRequested) (r Responded, ok bool) {
	if d, decided := permission.Take(m.Resume.Decisions, p, m.Folders); decided {
		return Responded{p.RequestID, d.Allow, d.Message, d.Given, d.By}, true
	}
	answer, reason := m.Policy.Answer(p)
	r = Responded{RequestID: p.RequestID, Allow: answer == permission.Allow, By: event.ByPolicy}
	if !r.Allow {
		r.Message = reason
	}
	return r, !forAPerson(answer)
}

// answerKnown answers a request that needs no person.
func (m *Machine) answerKnown(ev event.Event) []Action {
	p, asks := ev.Payload.(event.PermissionRequested)
	if _, open := m.Asked[p.RequestID]; !asks || !open {
		return nil
	}
	if r, ok := m.known(p); ok {
		return m.respond(r)
	}
	return nil
}

// byDeadline answers what no person has answered in time. It signals the workflow, which
// did not answer.
func (m *Machine) byDeadline(now time.Time) (do []Action) {
	reported := m.Reported
	for _, id := range m.Waiting {
		if answer, reason, late := m.Policy.Deadline.Passed(m.Asked[id].PermissionRequested, m.Asked[id].At, now); late {
			do = append(do, m.respond(Responded{RequestID: id, Allow: answer == permission.Allow, Message: reason, By: event.ByDeadline})...)
		}
	}
	m.Reported = reported
	return do
}

// respond answers a request once: answering again is no error, and the first answer counts.
func (m *Machine) respond(r Responded) []Action {
	asked, open := m.Asked[r.RequestID]
	given, again := m.Answers[r.RequestID]
	switch {
	case !open && again:
		return nil
	case !open:
		return []Action{RefuseAnswer{r.RequestID}}
	case again:
		r = given
	}
	m.Answers[r.RequestID] = r
	if len(r.Input) == 0 {
		r.Input = asked.Input
	}
	if !r.Allow && r.Message == "" {
		r.Message = "The user denied it."
	}
	m.stopWaiting(r.RequestID)
	if !m.ReportAnyway {
		m.Reported = m.Waiting // the workflow removes what it answered itself
	}
	if m.Held != nil && m.Held.RequestID == r.RequestID {
		return m.answerHeld(r)
	}
	return []Action{AnswerAgent(r)}
}

// whose adds to an outcome of a request who answered it. The policy's answers need not be
// saved for that: it answers the same again.
func (m *Machine) whose(p event.PermissionResolved) event.PermissionResolved {
	asked, open := m.Asked[p.RequestID]
	if !open || forAPerson(permission.Answer(p.Decision)) {
		return p
	}
	if r, given := m.Answers[p.RequestID]; given {
		p.By = r.By
	} else if answer, _ := m.Policy.Answer(asked.PermissionRequested); p.Decision == string(answer) {
		p.By = event.ByPolicy
	}
	return p
}

// steer sends the agent a message while it works. A later attempt may send it again, but
// the agent gets it once.
func (m *Machine) steer(s steering.Message) []Action {
	switch {
	case m.Steered.Has(s.ID):
		return nil
	case !m.Steers || m.Prompt == nil || m.Interrupt != nil || m.Concluded != nil || m.Terminated != "" || m.agentExited():
		return []Action{RefuseSteer{s.ID}}
	}
	m.Steered = append(slices.Clip(m.Steered), s)
	return []Action{SteerAgent{s}}
}

// steerAgain sends what earlier attempts have saved; the runner writes each once. A process
// other than the one with the prompt gets none of it.
func (m *Machine) steerAgain() (do []Action) {
	if m.Interrupt != nil || m.Terminated != "" || m.agentExited() {
		return nil
	}
	for _, s := range m.Steered.Waiting() {
		do = append(do, SteerAgent{s})
	}
	return do
}

// trackSteered records which messages the agent takes or refuses. If an interrupted agent starts a
// turn with one of them, it is interrupted again.
func (m *Machine) trackSteered(r Record) (do []Action) {
	for i, ev := range r.Events {
		pending := m.Steered
		var own string
		if m.Steered, r.Events[i].Payload, own = m.Steered.After(ev); len(pending.Taken()) < len(m.Steered.Taken()) {
			m.LastIdle = nil // it continued
		}
		if own != "" && m.Interrupt != nil {
			do = append(do, InterruptAgent{ID: "interrupt-" + m.ExecutionID + "-" + own, Reason: m.Interrupt.Reason})
		}
	}
	return do
}
