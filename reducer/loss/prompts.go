package loss

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Prompts finds, in a session's events, the users' messages of the main conversation. Not
// safe for concurrent use.
type Prompts struct {
	// Named are the ids under which agents may have received messages; any other the agent
	// chose.
	Named []string
	// begun is the message of the execution that started last.
	begun string
	// seen has the messages of which there is a block, and those blocks.
	seen map[string]bool
	// streamed are the messages of which the agent streamed a block; chosen those whose
	// blocks have ids that the agent chose, by these. Later blocks of an execution are of
	// other messages, which were sent while the agent worked.
	streamed map[string]bool
	chosen   map[string]string
}

// NewPrompts returns one that has no events; named is its Named.
func NewPrompts(named []string) Prompts {
	return Prompts{Named: named, seen: map[string]bool{}, streamed: map[string]bool{}, chosen: map[string]string{}}
}

// Add adds the next event of the stream.
func (p *Prompts) Add(ev event.Event) {
	switch e := ev.Payload.(type) {
	case event.QueryStarted:
		p.begun = append(e.MessageIDs, "")[0]
	case event.BlockUpsert:
		if ev.Context.Conversation() != event.Main || e.Block.Type != event.BlockUserMessage {
			return
		}
		p.seen[e.Block.ID], p.seen[p.begun] = true, true
		if e.Block.Source == event.SourceServer || p.streamed[p.begun] {
			return
		}
		p.streamed[p.begun] = true
		if !slices.Contains(p.Named, e.Block.ID) {
			p.chosen[e.Block.ID] = p.begun
		}
	}
}

// Seen reports whether there is a message that has, or whose block has, one of these ids.
func (p *Prompts) Seen(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return p.seen[id] })
}

// Chosen is [Options.Chosen].
func (p *Prompts) Chosen() map[string]string { return p.chosen }

// HasPrompt reports whether a message is in a conversation, in a block with one of its ids.
func HasPrompt(ids []string, s reducer.State) bool {
	return slices.ContainsFunc(s.Blocks, func(b event.Block) bool {
		return b.Type == event.BlockUserMessage && slices.Contains(ids, b.ID)
	})
}
