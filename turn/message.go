package turn

import (
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/steering"
)

// Message is what a turn sends the agent.
type Message struct {
	ID    string
	Text  string
	Parts []event.Part
	// BlockIDs are the ids that its blocks may have; see [PromptIDs].
	BlockIDs []string
	// Waited are the calls for which a person was asked when the turn was parked, and Waits
	// the requests with which it is being parked.
	Waited, Waits []string
	// Steered are the messages that were sent while the agent worked on it.
	Steered steering.Messages
}

// Lost returns the events that keep what the agent streamed and will not persist, at the
// turn's end. For an exited agent persisted is what its transcripts have
// ([loss.Persisted]); for a live one h has only the blocks that it dropped.
func (m Message) Lost(e Ending, h *History, persisted reducer.State, at time.Time) []event.Event {
	if !e.Exited {
		return loss.Keep(h.Streamed(), at)
	}
	_, marks := h.unanswered(m, persisted, at)
	return slices.Concat(m.keepPrompt(h, persisted, at), h.Difference(persisted, m.options(persisted, at)), marks)
}

func (m Message) options(persisted reducer.State, at time.Time) loss.Options {
	_, again := m.Steered.Persisted(persisted, nil)
	return loss.Options{At: at, Asked: m.BlockIDs, AskedAgain: again.BlockIDs()}
}

// keepPrompt returns the message as a server block if its agent exited before it streamed
// or persisted it: a person's message is never lost.
func (m Message) keepPrompt(h *History, persisted reducer.State, at time.Time) []event.Event {
	if m.ID == "" || h.prompts.Seen(m.BlockIDs) || loss.HasPrompt(m.BlockIDs, persisted) {
		return nil
	}
	return []event.Event{event.FromServer(event.MessageBlock(m.ID, m.Text, m.Parts), at)}
}
