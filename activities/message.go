package activities

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

func (a *attempt) message() turn.Message { return messageOf(a.adapter, a.in.Message) }

func messageOf(agent adapters.Adapter, m session.Message) turn.Message {
	return turn.Message{ID: m.ID, Text: m.Text, Parts: m.Parts, BlockIDs: promptIDs(agent, m.ID)}
}

// promptIDs are the ids that the blocks of a message may have.
func promptIDs(agent adapters.Adapter, messageID string) []string {
	if n, ok := agent.(adapters.Naming); ok {
		return turn.PromptIDs(messageID, n.BlockID)
	}
	return turn.PromptIDs(messageID, func(id string) string { return id })
}
