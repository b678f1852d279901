package loss

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Order is a conversation's blocks in the order of their creation, from a permanent block
// on.
type Order []placedBlock

// NewOrder starts after a permanent block; "" for the conversation's start.
func NewOrder(after string) Order { return Order{permanent(after)} }

// placedBlock is a block and what is known about its permanence. A pending block
// may be lost with its agent; a text that stays empty is dropped when the agent
// is idle.
type placedBlock struct {
	id string
	// complete: it can be removed only for being empty.
	complete bool
	// filled: it is not a text, or a text with content.
	filled bool
	// lost: it was streamed, and no transcript has it. It can't be an anchor any
	// more, since the agent may reuse its id.
	lost bool
	// begins: the event creates the block, even after a lost one with its id.
	begins bool
}

func (b placedBlock) permanent() bool { return b.complete && b.filled && !b.lost }

// permanent returns a block that is permanent from the start.
func permanent(id string) placedBlock { return placedBlock{id: id, complete: true, filled: true} }

// Add adds the next event of the conversation.
func (o *Order) Add(p event.Payload) {
	switch p := p.(type) {
	case event.BlockUpsert:
		o.upsert(p.Block)
	case event.BlockDelta:
		if b := o.find(p.BlockID); b != nil && p.Delta != "" {
			b.filled = true
		}
	case event.SubagentSpawned:
		o.place(permanent(event.SubagentBlockID(p.ToolUseID)))
	case event.SessionIdle:
		for i := range *o {
			(*o)[i].complete = true // it completes what is pending
		}
	}
}

func (o *Order) upsert(b event.Block) {
	if b.Status == "" && o.find(b.ID) == nil {
		return // a change of a block that was pruned
	}
	o.place(placedBlock{
		id: b.ID, complete: b.Status == event.StatusComplete, lost: reducer.Lost(b),
		begins: !reducer.Lost(b) && (b.Status == event.StatusComplete || b.Status == event.StatusPending),
		filled: !reducer.EmptyText(b),
	})
}

// place appends a block, or updates a known one. A lost block that is created
// again is appended, as in the conversation.
func (o *Order) place(b placedBlock) {
	known := o.find(b.id)
	if known != nil && known.lost && b.begins {
		known.id, known = "", nil // its index remains: others are counted by it
	}
	if known == nil {
		*o = append(*o, b)
		return
	}
	known.complete, known.filled, known.lost = known.complete || b.complete, known.filled || b.filled, known.lost || b.lost
}

// find searches from the end: most changes are about recent blocks.
func (o Order) find(id string) *placedBlock {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].id == id {
			return &o[i]
		}
	}
	return nil
}

// index returns the index of a block, or the one that it would have if it were
// appended.
func (o Order) index(id string) int {
	if i := slices.IndexFunc(o, func(b placedBlock) bool { return b.id == id }); i >= 0 {
		return i
	}
	return len(o)
}

// lastPermanent returns the index of the last permanent block among the first n.
func (o Order) lastPermanent(n int) int {
	for i := n - 1; i > 0; i-- {
		if o[i].permanent() {
			return i
		}
	}
	return 0
}

// anchor returns the last permanent block among the first n; "" for none.
func (o Order) anchor(n int) string {
	if len(o) == 0 {
		return ""
	}
	return o[o.lastPermanent(n)].id
}

// Last returns the last permanent block; "" for none.
func (o Order) Last() string { return o.anchor(len(o)) }

// Prune removes the permanent blocks before the last permanent one, which can't
// be an anchor any more.
func (o *Order) Prune() {
	last := o.lastPermanent(len(*o))
	kept := (*o)[:0]
	for i, b := range *o {
		if !b.permanent() || i >= last {
			kept = append(kept, b)
		}
	}
	*o = kept
}
