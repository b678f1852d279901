package loss

import (
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Tail folds a conversation's events from any position on: an event that changes a block
// from before it creates none. Adapters emit such events for calls that never got a result,
// of any turn: at the end of a transcript, and when the agent ends. Not safe for concurrent
// use.
type Tail struct{ *reducer.Builder }

// NewTail starts without blocks.
func NewTail() Tail { return Tail{reducer.NewBuilder(reducer.State{})} }

// Add adds the next event.
func (t Tail) Add(ev event.Event) {
	if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Status == "" && !t.Has(ev.Context.Conversation(), p.Block.ID) {
		return
	}
	t.Builder.Add(ev)
}
