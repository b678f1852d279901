package turn

import (
	"slices"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
)

// Withholds reports whether the agent is not prompted to resume, or not yet.
func (r *Resume) Withholds() bool {
	return r != nil && (r.Then == permission.LossAsk || r.Then == permission.LossFail)
}

// withhold asks a person whether the turn is to continue, or ends it. If it ends, the
// agent, which was not prompted, is stopped.
func (m *Machine) withhold(w Withheld) []Action {
	m.Held = &w
	given, answered := m.Answers[w.RequestID]
	switch {
	case m.Interrupt != nil:
		return []Action{StopAgent{}}
	case w.Then == permission.LossFail:
		return m.endHeld(effects.WhyFails(w.Decisions))
	case answered:
		return m.answerHeld(given)
	}
	req := effects.Request(w.RequestID, w.Unknown)
	m.Asked[w.RequestID] = Asked{req, w.At}
	m.Waiting = append(slices.Clone(m.Waiting), w.RequestID)
	return append(m.reportWaiting(), Emit{w.RequestID, []event.Payload{req}})
}

// answerHeld continues the turn or ends it, as a person decided.
func (m *Machine) answerHeld(r Responded) []Action {
	delete(m.Asked, r.RequestID)
	resolved := event.PermissionResolved{RequestID: r.RequestID, Decision: string(permission.Deny), By: r.By, Message: r.Message}
	if r.Allow {
		resolved.Decision, m.Held = string(permission.Allow), nil
	}
	do := []Action{SaveAnswer{r.RequestID}, Emit{r.RequestID + "-resolved", []event.Payload{resolved}}}
	if r.Allow {
		return append(do, AskAgent{})
	}
	return append(do, m.endHeld(effects.Denied(r.Message))...)
}

// endHeld fails the turn, which ends with the exit of the agent.
func (m *Machine) endHeld(why string) []Action {
	m.Cut = failure(m.Held.Why+"; the effect of what had begun then is unknown, and "+why+"\n"+effects.List(m.Held.Unknown, "\n"), event.CodeEffectUnknown)
	return []Action{StopAgent{}}
}

// cancelHeld withdraws an unanswered question.
func (m *Machine) cancelHeld() []Action {
	if m.Held == nil || m.Asked[m.Held.RequestID].RequestID == "" {
		return nil
	}
	id := m.Held.RequestID
	delete(m.Asked, id)
	m.stopWaiting(id)
	return []Action{Emit{id + "-resolved", []event.Payload{event.PermissionResolved{RequestID: id, Decision: "cancelled"}}}}
}
