// Package recent folds the newest part of a conversation. Of what came before, only the ids of
// blocks and the heads of subagents stay in memory.
package recent

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// Fold folds events like [reducer.Builder], and keeps the newest blocks of each conversation, as
// the whole fold has them. The oldest are omitted; a subagent whose block is omitted is so with its
// thread. The ids of omitted blocks are remembered: an event about one of them is no new block.
//
// A Fold is not safe for concurrent use; the states that it returns are.
type Fold struct {
	limit int
	made  *reducer.Builder
	// added counts the blocks that were added since the oldest were omitted.
	added int
	// gone are the omitted blocks, and whether they were lost: a lost one may be
	// said again.
	gone map[loss.Ref]bool
	// hidden are the omitted subagents, by tool use id.
	hidden map[string]bool
}

// New returns an empty fold that keeps at most limit blocks of each conversation; 0 is no
// limit. It holds up to twice as many.
func New(limit int) *Fold {
	return &Fold{limit: limit, made: reducer.NewBuilder(reducer.State{}), gone: map[loss.Ref]bool{}, hidden: map[string]bool{}}
}

// Add folds one event, as [reducer.Builder.Add] does.
func (f *Fold) Add(ev event.Event) {
	if f.limit > 0 {
		f.note(ev)
	}
	f.made.Add(ev)
	if f.limit > 0 && f.added >= f.limit {
		f.trim()
	}
}

// note counts a block that an event may add, and takes back one that is said again.
func (f *Fold) note(ev event.Event) {
	conv := ev.Context.Conversation()
	if id, ofBlock := loss.BlockOf(ev); ofBlock && !f.made.Has(conv, id) {
		f.added++
	}
	said, is := ev.Payload.(event.BlockUpsert)
	if !is {
		return
	}
	ref := loss.Ref{ConversationID: conv, BlockID: said.Block.ID}
	lost, gone := f.gone[ref]
	switch {
	case gone && reducer.Lost(said.Block):
		f.gone[ref] = true
	case gone && lost && said.Block.Type != "" && (said.Block.Status == event.StatusPending || said.Block.Status == event.StatusComplete):
		delete(f.gone, ref)
	}
}

// State returns the newest part of the conversation so far. Later events don't change it.
func (f *Fold) State() reducer.State {
	s := f.made.State()
	if f.limit == 0 {
		return s
	}
	return f.newest(s)
}

// newest returns the part of s that is shown.
func (f *Fold) newest(s reducer.State) reducer.State {
	shown := reducer.State{Blocks: f.last(event.Main, s.Blocks)}
	left := f.leftOut(s, shown.Blocks)
	for _, sub := range s.Subagents {
		if !left[sub.ToolUseID] {
			sub.Blocks = f.last(sub.ToolUseID, sub.Blocks)
			shown.Subagents = append(shown.Subagents, sub)
		}
	}
	return shown
}

// last returns the newest blocks of a conversation, without those that are omitted already.
func (f *Fold) last(conv string, blocks []event.Block) []event.Block {
	kept := slices.DeleteFunc(slices.Clone(blocks), func(b event.Block) bool {
		_, gone := f.gone[loss.Ref{ConversationID: conv, BlockID: b.ID}]
		return gone
	})
	return kept[max(len(kept)-f.limit, 0):]
}

// leftOut returns the subagents whose block is omitted, or that of one above them; kept are
// the blocks of the main conversation that are not.
func (f *Fold) leftOut(s reducer.State, kept []event.Block) map[string]bool {
	left := map[string]bool{}
	for id := range f.hidden {
		left[id] = true
	}
	f.hide(left, s.Blocks, kept)
	for before := -1; before < len(left); {
		before = len(left)
		for _, sub := range s.Subagents {
			if left[sub.ToolUseID] {
				f.hide(left, sub.Blocks, nil)
				continue
			}
			f.hide(left, sub.Blocks, f.last(sub.ToolUseID, sub.Blocks))
		}
	}
	return left
}

// hide adds the subagents whose block is among all and not among kept.
func (f *Fold) hide(left map[string]bool, all, kept []event.Block) {
	for _, b := range all {
		if b.Type == event.BlockSubagent && b.ID == event.SubagentBlockID(b.ToolUseID) &&
			!slices.ContainsFunc(kept, func(k event.Block) bool { return k.ID == b.ID }) {
			left[b.ToolUseID] = true
		}
	}
}

// trim omits the oldest blocks. The subagents' heads stay, without their texts: events name a
// subagent in several ways.
func (f *Fold) trim() {
	f.added = 0
	s := f.made.State()
	shown := f.newest(s)
	f.hidden = f.leftOut(s, shown.Blocks)
	f.forget(event.Main, s.Blocks, shown.Blocks)
	kept := reducer.State{Blocks: shown.Blocks}
	for _, sub := range s.Subagents {
		of, _ := shown.Subagent(sub.ToolUseID, "")
		f.forget(sub.ToolUseID, sub.Blocks, of.Blocks)
		if f.hidden[sub.ToolUseID] {
			sub.Prompt, sub.Output = "", nil
		}
		sub.Blocks = of.Blocks
		kept.Subagents = append(kept.Subagents, sub)
	}
	f.made = reducer.NewBuilder(kept)
}

// forget notes the blocks of a conversation that are not kept.
func (f *Fold) forget(conv string, all, kept []event.Block) {
	here := map[string]bool{}
	for _, b := range kept {
		here[b.ID] = true
	}
	for _, b := range all {
		if !here[b.ID] {
			f.gone[loss.Ref{ConversationID: conv, BlockID: b.ID}] = reducer.Lost(b)
		}
	}
}
