package activities

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// blockOrder is a conversation's blocks in the order in which they were created,
// from some block on that is sure to stay.
type blockOrder []heardBlock

// heardBlock is a block, and what is known of its staying. One that is pending
// may yet be lost with the agent; a text that stays empty is dropped when the
// agent is idle.
type heardBlock struct {
	id string
	// done: nothing takes it away any more but its being empty.
	done bool
	// filled: it is no text, or one that says something.
	filled bool
	// lost: it was said, and no transcript has it. Nothing can be anchored to it any
	// more: the agent may say another one under its id.
	lost bool
	// anew: what is said of the block begins it, also when it was lost.
	anew bool
}

func (b heardBlock) stands() bool { return b.done && b.filled && !b.lost }

// standing is a block that is sure to stay from the beginning.
func standing(id string) heardBlock { return heardBlock{id: id, done: true, filled: true} }

// hear follows the conversation.
func (o *blockOrder) hear(p event.Payload) {
	switch p := p.(type) {
	case event.BlockUpsert:
		o.upsert(p.Block)
	case event.BlockDelta:
		if b := o.find(p.BlockID); b != nil && p.Delta != "" {
			b.filled = true
		}
	case event.SubagentSpawned:
		o.place(standing(event.SubagentBlockID(p.ToolUseID)))
	case event.SessionIdle:
		// What is pending is completed by it.
		for i := range *o {
			(*o)[i].done = true
		}
	}
}

func (o *blockOrder) upsert(b event.Block) {
	text := b.Type == event.BlockAssistantText || b.Type == event.BlockThinking
	o.place(heardBlock{
		id: b.ID, done: b.Status == event.StatusComplete, lost: reducer.Lost(b),
		anew:   !reducer.Lost(b) && (b.Status == event.StatusComplete || b.Status == event.StatusPending),
		filled: !text || says(b.Content) || says(b.Summary),
	})
}

func says(s *string) bool { return s != nil && *s != "" }

// place adds a block at the end, or what is new of a known one. One that was
// lost and is said again comes at the end, as in the conversation.
func (o *blockOrder) place(b heardBlock) {
	known := o.find(b.id)
	if known != nil && known.lost && b.anew {
		known.id, known = "", nil // its place stays: others are counted by it
	}
	if known == nil {
		*o = append(*o, b)
		return
	}
	known.done, known.filled, known.lost = known.done || b.done, known.filled || b.filled, known.lost || b.lost
}

// find looks from the end: what changes is mostly what came last.
func (o blockOrder) find(id string) *heardBlock {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].id == id {
			return &o[i]
		}
	}
	return nil
}

// index is where a block stands, or would stand if it came now.
func (o blockOrder) index(id string) int {
	if i := slices.IndexFunc(o, func(b heardBlock) bool { return b.id == id }); i >= 0 {
		return i
	}
	return len(o)
}

// lastStanding is the index of the last of the first n blocks that stands.
func (o blockOrder) lastStanding(n int) int {
	for i := n - 1; i > 0; i-- {
		if o[i].stands() {
			return i
		}
	}
	return 0
}

// anchor is the last of the first n blocks that is sure to stay.
func (o blockOrder) anchor(n int) string {
	if len(o) == 0 {
		return ""
	}
	return o[o.lastStanding(n)].id
}

// prune forgets the blocks that nothing will be asked of: those that stand,
// before the last one that does.
func (o *blockOrder) prune() {
	last := o.lastStanding(len(*o))
	kept := (*o)[:0]
	for i, b := range *o {
		if !b.stands() || i >= last {
			kept = append(kept, b)
		}
	}
	*o = kept
}
