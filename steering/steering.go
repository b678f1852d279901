// Package steering tracks the messages that a turn's agent was sent while it worked: which
// of them the agent has taken, and which are still Sojourn's. It does no I/O and reads
// no clock.
package steering

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Message is a message that was sent to a working agent.
type Message struct {
	ID    string       `json:"id"`
	Text  string       `json:"text,omitempty"`
	Parts []event.Part `json:"parts,omitempty"`
	// BlockIDs are the ids that its block may have.
	BlockIDs []string `json:"blockIds,omitempty"`
	// Taken reports whether the agent has taken it.
	Taken bool `json:"taken,omitempty"`
	// Refused reports whether the agent's server refused it: the agent never takes it.
	Refused bool `json:"refused,omitempty"`
}

// Messages are in the order in which they were sent. Methods change no list that was
// returned before.
type Messages []Message

// Has reports whether a message is in the list.
func (m Messages) Has(id string) bool {
	return slices.ContainsFunc(m, func(h Message) bool { return h.ID == id })
}

// Without returns the list without a message.
func (m Messages) Without(id string) Messages {
	return slices.DeleteFunc(slices.Clone(m), func(h Message) bool { return h.ID == id })
}

// After returns the list after an event: the agent takes a message in the turn that runs,
// in a turn of its own, or right where it was written, or its server refuses it. said is the
// event's payload with Sojourn's id of the message, where the agent has another; own is the
// id of a message that gets a turn of its own, "" for none.
func (m Messages) After(ev event.Event) (after Messages, said event.Payload, own string) {
	at, said := -1, ev.Payload
	_, refused := ev.Payload.(event.Error)
	switch p := ev.Payload.(type) {
	case event.Error:
		if at = m.find(p.MessageID); at >= 0 {
			p.MessageID = m[at].ID
			said = p
		}
	case event.MessageFolded:
		if at = m.find(p.MessageID); at >= 0 {
			p.MessageID = m[at].ID
			said = p
		}
	case event.MessageOwnTurn:
		if at = m.find(p.MessageID); at >= 0 {
			p.MessageID, own = m[at].ID, m[at].ID
			said = p
		}
	case event.BlockUpsert:
		if p.Block.Type == event.BlockUserMessage && !reducer.Lost(p.Block) && ev.Context.Conversation() == event.Main {
			at = m.find(p.Block.ID)
		}
	}
	if at < 0 {
		return m, said, ""
	}
	after = slices.Clone(m)
	after[at].Taken, after[at].Refused = !refused, refused
	return after, said, own
}

// find returns the index of the message that has an id for the agent; -1 for none.
func (m Messages) find(id string) int {
	return slices.IndexFunc(m, func(h Message) bool { return h.ID == id || slices.Contains(h.BlockIDs, id) })
}

// Waiting returns the messages that the agent has and has not taken.
func (m Messages) Waiting() Messages {
	return slices.DeleteFunc(slices.Clone(m), func(h Message) bool { return h.Taken || h.Refused })
}

// Pending reports whether there are such messages.
func (m Messages) Pending() bool { return len(m.Waiting()) > 0 }

// Taken returns the ids of what the agent has taken.
func (m Messages) Taken() (ids []string) {
	for _, h := range m {
		if h.Taken {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// Persisted returns what the transcripts of an exited agent have, as taken, and the
// rest, which has to be sent again. An agent takes messages in order, and may join
// several to one block, which has the last one's id: what was sent before a persisted
// message is persisted too, unless it was refused. refused are the ids of such, beside
// those that the list knows.
func (m Messages) Persisted(s reducer.State, refused map[string]bool) (kept, rest Messages) {
	n := 0
	for i, h := range m {
		if h.in(s) {
			n = i + 1
		}
	}
	for _, h := range m[:n] {
		if h.in(s) || !h.Refused && !refused[h.ID] {
			h.Taken = true
			kept = append(kept, h)
		}
	}
	return kept, slices.Clone(m[n:])
}

// in reports whether a conversation has the message's own block.
func (h Message) in(s reducer.State) bool {
	return slices.ContainsFunc(s.Blocks, func(b event.Block) bool {
		return b.Type == event.BlockUserMessage && slices.Contains(h.BlockIDs, b.ID)
	})
}

// BlockIDs returns the ids that their blocks may have.
func (m Messages) BlockIDs() (ids []string) {
	for _, h := range m {
		ids = append(ids, h.BlockIDs...)
	}
	return ids
}
