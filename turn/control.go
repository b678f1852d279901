package turn

import (
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
)

// Interrupt is an interrupt under way: the agent is asked to stop, then terminated,
// then killed.
type Interrupt struct {
	Reason string `json:"reason,omitempty"`
	// Steps counts the harder steps that were taken or were due, and Due is when the
	// next one is.
	Steps int       `json:"steps"`
	Due   time.Time `json:"due"`
}

// stopPatience is how long each step of an interrupt has before the next.
const stopPatience = 10 * time.Second

// ContinueInterrupt continues an interrupt that the agent was handed at a time,
// perhaps by an attempt before: steps that were due since count as taken, so
// attempts that come and go don't postpone the next. That one waits long enough for
// this attempt to read that the agent has stopped.
func (m *Machine) ContinueInterrupt(reason string, at, now time.Time) {
	since := max(now.Sub(at), 0)
	m.Interrupt = &Interrupt{
		Reason: reason, Steps: int(since / stopPatience), Due: now.Add(max(stopPatience-since%stopPatience, stopPatience/5)),
	}
}

func (m *Machine) requestInterrupt(r InterruptRequested) []Action {
	if m.Interrupt != nil || m.Concluded != nil {
		return nil
	}
	return []Action{InterruptAgent(r)}
}

// tick takes the next step of an interrupt, and has an agent interrupted that makes
// no progress. The wait for a person is none of the agent's.
func (m *Machine) tick(now time.Time) []Action {
	if m.Concluded != nil {
		return nil
	}
	do := append(m.byDeadline(now), m.tellWaiting()...)
	if m.Interrupt != nil {
		return append(do, m.escalate(now)...)
	}
	if over := m.Limits.Reached(m.Used.Add(m.Summary.Usage, m.Summary.CostUSD, now.Sub(m.Began))); over != "" {
		m.Cut = failure(over, event.CodeLimit)
		return append(do, m.requestInterrupt(InterruptRequested{ID: "limit-" + m.ExecutionID, Reason: over})...)
	}
	if len(m.Asked) > 0 {
		m.LastProgress = now
	}
	if m.LastProgress.IsZero() {
		m.LastProgress = m.Began
	}
	if now.Sub(m.LastProgress) < m.Patience {
		return do
	}
	return append(do, CheckSpool{})
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

// spoolRead interrupts a silent agent. An attempt that has not read all of the spool
// can't judge how long the agent has been silent.
func (m *Machine) spoolRead(s SpoolRead) []Action {
	if !s.All || m.Interrupt != nil || s.Now.Sub(m.LastProgress) < m.Patience {
		return nil
	}
	m.Cut = failure(fmt.Sprintf("the agent said nothing for %s: the turn was ended", m.Patience), event.CodeNoProgress)
	return m.requestInterrupt(InterruptRequested{ID: "no-progress-" + m.ExecutionID, Reason: "no progress"})
}

// forAPerson reports whether nobody else answers.
func forAPerson(a permission.Answer) bool { return a != permission.Allow && a != permission.Deny }

// byPolicy answers a request by the rules and the standing policy, if they do.
func (m *Machine) byPolicy(ev event.Event) []Action {
	p, asks := ev.Payload.(event.PermissionRequested)
	if _, open := m.Asked[p.RequestID]; !asks || !open {
		return nil
	}
	answer, reason := m.Policy.Answer(p)
	if forAPerson(answer) {
		return nil
	}
	r := Responded{RequestID: p.RequestID, Allow: answer == permission.Allow, By: event.ByPolicy}
	if !r.Allow {
		r.Message = reason
	}
	return m.respond(r)
}

// byDeadline answers what no person has answered in time. The workflow, which did
// not answer, is told.
func (m *Machine) byDeadline(now time.Time) (do []Action) {
	told := m.Told
	for _, id := range m.Waiting {
		if answer, reason, late := m.Policy.Deadline.Passed(m.Asked[id].At, now); late {
			do = append(do, m.respond(Responded{RequestID: id, Allow: answer == permission.Allow, Message: reason, By: event.ByDeadline})...)
		}
	}
	m.Told = told
	return do
}

// respond answers a request once: to answer one again is no fault, and the first
// answer is the one that counts.
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
	if !m.TellAnyway {
		m.Told = m.Waiting // the workflow takes its own answer off
	}
	return []Action{AnswerAgent(r)}
}

// whose completes what became of a request with who answered it. Of the policy that
// is known without having been saved: it answers alike again.
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
