package activities

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/steering"
	"github.com/sojourn-run/sojourn/turn"
)

func (a *attempt) message() turn.Message {
	m := messageOf(a.adapter, a.in.Message)
	m.Steered = a.machine.Steered
	if open := a.checkpoint.Open; open != nil && open.Parked != nil {
		m.Waited, m.Waits = open.Parked.Parked.Calls(), open.Parked.Parked.Open()
	}
	if a.in.Resumes == nil {
		return m
	}
	return parkedBefore(m, a.in.Resumes.Parked)
}

// parkedBefore adds to a message what is known of it since its turn was parked; p is nil if
// it was not.
func parkedBefore(m turn.Message, p *permission.Parked) turn.Message {
	if p == nil {
		return m
	}
	m.Waited = append(m.Waited, p.Calls()...)
	if id := p.PromptID; id != "" {
		m.BlockIDs = append(m.BlockIDs, id)
	}
	return m
}

func messageOf(agent adapters.Adapter, m session.Message) turn.Message {
	return turn.Message{ID: m.ID, Text: m.Text, Parts: m.Parts, BlockIDs: promptIDs(agent, m.ID)}
}

func messagesOf(agent adapters.Adapter, messages []session.Message) (out []turn.Message) {
	for _, m := range messages {
		out = append(out, messageOf(agent, m))
	}
	return out
}

// promptIDs returns the ids that the blocks of a message may have.
func promptIDs(agent adapters.Adapter, messageID string) []string {
	if n, ok := agent.(adapters.Naming); ok {
		return turn.PromptIDs(messageID, n.BlockID)
	}
	return turn.PromptIDs(messageID, func(id string) string { return id })
}

// steeredOf returns a message for a working agent, which is sent under one id.
func steeredOf(agent adapters.Adapter, m session.Message) steering.Message {
	return steering.Message{ID: m.ID, Text: m.Text, Parts: m.Parts, BlockIDs: promptIDs(agent, m.ID)[:2]}
}

// steeredBefore returns messages of which only the ids are known: those that an agent which
// has exited may have received.
func steeredBefore(agent adapters.Adapter, ids []string) (out steering.Messages) {
	for _, id := range ids {
		out = append(out, steeredOf(agent, session.Message{ID: id}))
	}
	return out
}
