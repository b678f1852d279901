package session

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// outputs are the blocks of the main conversation that began in an execution. A block that
// began before may still change in it, such as a call that ends: a change has only what is
// new, and would make a hollow block.
type outputs struct {
	made  *reducer.Builder
	begun map[string]bool
}

func newOutputs() outputs {
	return outputs{reducer.NewBuilder(reducer.State{}), map[string]bool{}}
}

// add adds the next event of the execution.
func (o outputs) add(ev event.Event) {
	if ev.Context.Conversation() != event.Main {
		return
	}
	id, ofBlock := loss.BlockOf(ev)
	o.begun[id] = o.begun[id] || beginsBlock(ev)
	if !ofBlock || o.begun[id] {
		o.made.Add(ev)
	}
}

func (o outputs) blocks() []event.Block { return slices.Clip(o.made.State().Blocks) }

// beginsBlock reports whether an event of an unknown block has all that the block needs.
func beginsBlock(ev event.Event) bool {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		b := p.Block
		return b.Status != "" && !reducer.Lost(b) && (b.Type != event.BlockToolUse || b.ToolUseID != "")
	case event.SubagentSpawned:
		return true
	}
	return false
}
