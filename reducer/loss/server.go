package loss

import (
	"cmp"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// ServerBlocks finds, in a session's events, the server's events about blocks and
// the place of each in its conversation: what Sojourn's own transcript must hold so
// that a restored conversation has what was streamed. Not safe for concurrent use.
type ServerBlocks struct {
	// orders are the conversations that were seen.
	orders map[string]*Order
	events []serverEvent
}

// serverEvent is a server event, and how many blocks of its conversation precede it.
type serverEvent struct {
	ev     event.Event
	before int
}

// Placed is a server event and the permanent block that it follows in its conversation; ""
// for the conversation's start.
type Placed struct {
	ConversationID, AfterBlockID string
	Event                        event.Event
}

// NewServerBlocks starts after a block of the main conversation; "" for its start.
func NewServerBlocks(after string) ServerBlocks {
	return ServerBlocks{orders: map[string]*Order{event.Main: {permanent(after)}}}
}

func (s *ServerBlocks) order(conversation string) *Order {
	if s.orders[conversation] == nil {
		s.orders[conversation] = &Order{permanent("")}
	}
	return s.orders[conversation]
}

// Add adds the next event of the stream.
func (s *ServerBlocks) Add(ev event.Event) {
	if p, ok := ev.Payload.(event.SubagentSpawned); ok && p.ToolUseID == ev.Context.Conversation() {
		return // a thread that was read late repeats its start: its block is the parent's
	}
	blocks := s.order(ev.Context.Conversation())
	block, belongs := BlockOf(ev)
	if !belongs || ev.Context.Source != event.SourceServer {
		s.forgetLost(ev)
		blocks.Add(ev.Payload)
		return
	}
	if _, ends := ev.Payload.(event.SubagentCompleted); ends && blocks.find(block) == nil {
		// It creates no block: the subagent's block precedes it, or does not exist.
		s.events = append(s.events, serverEvent{ev, len(*blocks)})
		return
	}
	if _, places := ev.Payload.(event.BlockPlaced); places {
		s.events = append(s.events, serverEvent{ev, blocks.index(block)})
		return
	}
	p, upsert := ev.Payload.(event.BlockUpsert)
	lost := upsert && reducer.Lost(p.Block)
	blocks.place(placedBlock{id: block, complete: true, filled: true, lost: lost, begins: upsert && !lost})
	s.events = append(s.events, serverEvent{ev, blocks.index(block)})
}

// forgetLost removes the loss of a block that the agent creates again: nothing of
// the first one remains in the conversation.
func (s *ServerBlocks) forgetLost(ev event.Event) {
	p, upsert := ev.Payload.(event.BlockUpsert)
	if !upsert || reducer.Lost(p.Block) || p.Block.Status != event.StatusPending && p.Block.Status != event.StatusComplete {
		return
	}
	s.events = slices.DeleteFunc(s.events, func(e serverEvent) bool {
		was, upsert := e.ev.Payload.(event.BlockUpsert)
		return upsert && reducer.Lost(was.Block) && RefOf(e.ev) == RefOf(ev)
	})
}

// Last returns the last permanent block of the main conversation.
func (s *ServerBlocks) Last() string { return s.order(event.Main).Last() }

// Placed returns the server's events in the order of their places, which is not
// that of the stream: a loss is discovered only after what followed it.
func (s *ServerBlocks) Placed() []Placed {
	slices.SortStableFunc(s.events, func(a, b serverEvent) int { return cmp.Compare(a.before, b.before) })
	var out []Placed
	for _, e := range s.events {
		conversation := e.ev.Context.Conversation()
		out = append(out, Placed{ConversationID: conversation, AfterBlockID: s.order(conversation).anchor(e.before), Event: e.ev})
	}
	return out
}

// BlockOf returns the block that a server event concerns, and whether there is
// one.
func BlockOf(ev event.Event) (id string, ok bool) {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return p.Block.ID, true
	case event.BlockPlaced:
		return p.BlockID, true
	case event.SubagentSpawned:
		return event.SubagentBlockID(p.ToolUseID), true
	case event.SubagentCompleted:
		return event.SubagentBlockID(p.ToolUseID), true
	}
	return "", false
}

// Ref identifies a block of a conversation.
type Ref struct{ ConversationID, BlockID string }

// RefOf returns the block that an agent's event concerns; the zero Ref for none.
func RefOf(ev event.Event) Ref {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return Ref{ev.Context.Conversation(), p.Block.ID}
	case event.BlockDelta:
		return Ref{ev.Context.Conversation(), p.BlockID}
	}
	return Ref{}
}
