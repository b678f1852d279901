package archive

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// early are the blocks that the agent has elsewhere in its transcripts than subscribers saw
// them, and what it wrote about them before their places.
type early struct {
	// places are the entries with the places, by block.
	places map[Anchor]int
	events []earlyEvent
	// threads are the subagents whose start waits, by conversation, with its block.
	threads map[string]Anchor
}

// earlyEvent is an event that waits for the place of a block.
type earlyEvent struct {
	block Anchor
	event.Event
}

func newEarly() early { return early{places: map[Anchor]int{}, threads: map[string]Anchor{}} }

// expect notes the place in an entry, if it has one. The last one of a block counts.
func (e *early) expect(entry ServerEntry, i int) {
	if block, ok := entry.places(); ok {
		e.places[block] = i
	}
}

// places returns the block whose place an entry is, if it is one.
func (e ServerEntry) places() (block Anchor, ok bool) {
	p, ok := e.Event.Payload.(event.BlockPlaced)
	return Anchor{e.Event.Context.Conversation(), p.BlockID}, ok
}

// hold keeps an event that is too early, and reports whether it is.
func (m *merger) hold(ev event.Event) bool {
	conversation := m.conversation(ev)
	block, waits := m.early.threads[conversation]
	if !waits {
		block = Anchor{conversation, about(ev.Payload)}
		i, expected := m.early.places[block]
		waits = expected && !m.placed[i]
	}
	if !waits {
		return false
	}
	m.early.events = append(m.early.events, earlyEvent{block, ev})
	if p, starts := ev.Payload.(event.SubagentSpawned); starts {
		for _, name := range []string{p.ToolUseID, p.AgentID} {
			if name != "" {
				m.early.threads[name] = block
			}
		}
	}
	return true
}

// about returns the block that an event is about; "" for none.
func about(p event.Payload) string {
	switch p := p.(type) {
	case event.BlockDelta:
		return p.BlockID
	case event.SubagentCompleted:
		return event.SubagentBlockID(cmp.Or(p.ToolUseID, p.AgentID))
	}
	return creates(p)
}

// release yields what waits for the place of a block.
func (m *merger) release(block Anchor) bool {
	var due []earlyEvent
	m.early.events = slices.DeleteFunc(m.early.events, func(e earlyEvent) bool {
		is := e.block == block
		if is {
			due = append(due, e)
		}
		return is
	})
	maps.DeleteFunc(m.early.threads, func(_ string, starts Anchor) bool { return starts == block })
	for _, e := range due {
		if !m.hold(e.Event) && !m.event(e.Event, len(m.own)) {
			return false
		}
	}
	return true
}

// releaseAll yields whatever waits, since the places that it waits for do not come any more.
func (m *merger) releaseAll() bool {
	for len(m.early.events) > 0 {
		block := m.early.events[0].block
		delete(m.early.places, block)
		if !m.release(block) {
			return false
		}
	}
	return true
}
