package reducer

import (
	"iter"

	"github.com/sojourn-run/sojourn/event"
)

// Reduce returns s after e. It is pure and total: the same arguments make the
// same state, s is not written to, and no event makes it fail. An event that
// changes nothing returns s itself, see [State.Same]. What e holds becomes part
// of the state and must not be written to afterwards.
//
// Only the conversation that changes is copied. That suits a reader that keeps
// old states (a user interface, say); use [Builder] to fold many events and look
// at few states.
func Reduce(s State, e event.Event) State {
	d := copyOnWrite{state: s}
	apply(&d, e)
	return d.state
}

// Fold returns the state after all events, built by a [Builder]. An error of the
// sequence ends the fold, and is returned with the state of the part before it.
func Fold(events iter.Seq2[event.Event, error]) (State, error) {
	var b Builder
	for e, err := range events {
		if err != nil {
			return b.State(), err
		}
		b.Add(e)
	}
	return b.State(), nil
}

// copyOnWrite is a state under change by one event: it copies a slice before the
// first write to it.
type copyOnWrite struct {
	state State
	// ownSubagents means that this copyOnWrite has copied the list of subagents.
	ownSubagents bool
}

var _ tree = (*copyOnWrite)(nil)

func (d *copyOnWrite) lookup(toolUseID, agentID string) int {
	return lookup(d.state.Subagents, toolUseID, agentID)
}

func (d *copyOnWrite) subagent(at int) Subagent {
	s := d.state.Subagents[at]
	s.Blocks = nil
	return s
}

func (d *copyOnWrite) addSubagent(s Subagent) int {
	d.state.Subagents = with(d.state.Subagents, s)
	d.ownSubagents = true
	return len(d.state.Subagents) - 1
}

func (d *copyOnWrite) setSubagent(at int, s Subagent) {
	s.Blocks = d.state.Subagents[at].Blocks
	d.own()
	d.state.Subagents[at] = s
}

func (d *copyOnWrite) own() {
	if !d.ownSubagents {
		d.state.Subagents = clone(d.state.Subagents)
		d.ownSubagents = true
	}
}

func (d *copyOnWrite) blocks(at int) []event.Block {
	if at == main {
		return d.state.Blocks
	}
	return d.state.Subagents[at].Blocks
}

func (d *copyOnWrite) setBlocks(at int, blocks []event.Block) {
	if at == main {
		d.state.Blocks = blocks
		return
	}
	d.own()
	d.state.Subagents[at].Blocks = blocks
}

func (d *copyOnWrite) block(at int, id string) (event.Block, bool) {
	blocks := d.blocks(at)
	if i := find(blocks, id); i >= 0 {
		return blocks[i], true
	}
	return event.Block{}, false
}

func (d *copyOnWrite) addBlock(at int, b event.Block) {
	d.setBlocks(at, with(d.blocks(at), b))
}

func (d *copyOnWrite) setBlock(at int, b event.Block) {
	blocks := clone(d.blocks(at))
	blocks[find(blocks, b.ID)] = b
	d.setBlocks(at, blocks)
}

func (d *copyOnWrite) dropBlock(at int, id string) {
	old := d.blocks(at)
	i := find(old, id)
	d.setBlocks(at, append(clone(old[:i]), old[i+1:]...))
}

func (d *copyOnWrite) locate(refID string) (int, bool) {
	if find(d.state.Blocks, refID) >= 0 {
		return main, true
	}
	for at := range d.state.Subagents {
		if find(d.state.Subagents[at].Blocks, refID) >= 0 {
			return at, true
		}
	}
	return 0, false
}

func (d *copyOnWrite) appendText(at int, id, delta string) {
	b, ok := d.block(at, id)
	if !ok || !b.Type.HasText() {
		return
	}
	text := *orZero(b.Content) + delta
	b.Content = &text
	d.setBlock(at, b)
}

func (d *copyOnWrite) complete(at int) {
	old := d.blocks(at)
	first := firstIncomplete(old)
	if first < 0 {
		return
	}
	blocks := append(make([]event.Block, 0, len(old)), old[:first]...)
	for _, b := range old[first:] {
		if b, keep := complete(b); keep {
			blocks = append(blocks, b)
		}
	}
	d.setBlocks(at, blocks)
}

func firstIncomplete(blocks []event.Block) int {
	for i := range blocks {
		if incomplete(blocks[i]) {
			return i
		}
	}
	return -1
}

// find searches from the end, where nearly all changes happen.
func find(blocks []event.Block, id string) int {
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].ID == id {
			return i
		}
	}
	return -1
}

// with returns list with v appended, in memory of its own: spare capacity of list
// may be used by another state that grew from it.
func with[T any](list []T, v T) []T {
	out := make([]T, len(list)+1)
	copy(out, list)
	out[len(list)] = v
	return out
}

func clone[T any](list []T) []T {
	return append(make([]T, 0, len(list)), list...)
}
