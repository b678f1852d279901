package loss

import (
	"iter"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/footprint"
	"github.com/sojourn-run/sojourn/reducer"
)

// maxBehind bounds, in bytes, what is kept of the blocks that the agent persisted after the
// last streamed one.
const maxBehind = 8 << 20

// Persisted returns the part of the conversation in the agent's transcripts that
// a turn is compared with: the blocks that were streamed, its message (asked are
// its ids, see turn.PromptIDs), and in each of its conversations what follows the
// last of them, with the subagents that started there. events are the parsed
// transcripts; their errors (a torn last line, say) are skipped. A transcript may
// be of any length; the memory is that of the turn.
func Persisted(events iter.Seq2[event.Event, error], asked []string, streamed reducer.State) reducer.State {
	s := newSelection(asked, streamed)
	for ev, err := range events {
		if err == nil {
			s.add(ev)
		}
	}
	return s.state()
}

// selection folds a selection of persisted events.
type selection struct {
	kept Tail
	// wanted are the ids of the blocks to keep, by conversation; true until the block
	// is read.
	wanted map[string]map[string]bool
	// found are the conversations of which a wanted block was read.
	found map[string]bool
	// behind are the events that follow the last wanted block of their conversation.
	behind []behindEvent
	bytes  map[string]int
	// under maps a subagent to the conversation after whose last wanted block it started;
	// "" for one that is not kept.
	under map[string]string
	// began are the conversations in which subagents started.
	began map[string]string
}

// behindEvent is an event after the last wanted block of a conversation.
type behindEvent struct {
	conversation string
	event.Event
}

func newSelection(asked []string, streamed reducer.State) *selection {
	s := &selection{
		kept:   NewTail(),
		wanted: map[string]map[string]bool{event.Main: {}},
		found:  map[string]bool{}, bytes: map[string]int{}, under: map[string]string{}, began: map[string]string{},
	}
	for _, id := range asked {
		s.wanted[event.Main][id] = true
	}
	s.want(event.Main, streamed.Blocks)
	for _, sub := range streamed.Subagents {
		s.want(sub.ToolUseID, sub.Blocks)
		if sub.AgentID != "" { // its name in transcripts that don't have its call
			s.want(sub.AgentID, sub.Blocks)
		}
	}
	return s
}

func (s *selection) want(conversation string, blocks []event.Block) {
	if s.wanted[conversation] == nil {
		s.wanted[conversation] = map[string]bool{}
		s.found[conversation] = conversation != event.Main // a subagent's conversation is needed whole
	}
	for _, b := range blocks {
		s.wanted[conversation][b.ID] = true
	}
}

func (s *selection) add(ev event.Event) {
	conversation := ev.Context.Conversation()
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		s.place(conversation, p.Block.ID, ev)
	case event.SubagentSpawned:
		s.began[p.ToolUseID] = conversation
		kept := s.place(conversation, event.SubagentBlockID(p.ToolUseID), ev)
		if s.wanted[p.ToolUseID] == nil {
			s.under[p.ToolUseID] = ""
			if kept {
				s.under[p.ToolUseID] = s.owner(conversation)
			}
		}
	case event.SubagentCompleted:
		if began, ok := s.began[p.ToolUseID]; ok {
			conversation = began
		}
		if under, ok := s.under[p.ToolUseID]; !ok || under != "" {
			s.place(conversation, event.SubagentBlockID(p.ToolUseID), ev)
		}
	case event.SessionIdle:
		s.keepBehind()
		s.kept.Add(ev)
	}
}

// owner returns the turn's conversation that a conversation counts for; "" for none. A
// thread without a call is read after everything else.
func (s *selection) owner(conversation string) string {
	if under, ok := s.under[conversation]; ok {
		return under
	}
	if _, began := s.began[conversation]; !began && s.wanted[conversation] == nil {
		return event.Main
	}
	return conversation
}

// place keeps an event of a wanted block, and discards what precedes it; other
// events are kept if they follow one. It reports whether the event is kept.
func (s *selection) place(conversation, block string, ev event.Event) bool {
	owner := s.owner(conversation)
	if missing, wanted := s.wanted[conversation][block]; wanted {
		if missing {
			s.forgetBehind(owner)
		}
		s.wanted[conversation][block] = false
		s.found[conversation] = true
		s.kept.Add(ev)
		return true
	}
	weight := footprint.Of(ev)
	if !s.found[owner] || s.bytes[owner]+weight > maxBehind {
		return false
	}
	s.bytes[owner] += weight
	s.behind = append(s.behind, behindEvent{owner, ev})
	return true
}

// forgetBehind discards what turned out to be between wanted blocks.
func (s *selection) forgetBehind(owner string) {
	if s.bytes[owner] == 0 {
		return
	}
	s.bytes[owner] = 0
	s.behind = slices.DeleteFunc(s.behind, func(e behindEvent) bool { return e.conversation == owner })
	for id, under := range s.under {
		if under == owner {
			s.under[id] = ""
		}
	}
}

// keepBehind folds the events in behind, in the order in which they were read.
func (s *selection) keepBehind() {
	for _, e := range s.behind {
		s.kept.Add(e.Event)
	}
	s.behind = nil
	clear(s.bytes)
}

func (s *selection) state() reducer.State {
	s.keepBehind()
	return s.kept.State()
}
