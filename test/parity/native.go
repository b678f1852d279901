package parity

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Native returns the part of a live conversation that the agent's own transcripts must
// have. It leaves out server blocks, blocks marked as lost (metadata "lost"), and the
// threads of subagents whose reference block is among them. Use it to compare with a
// transcript alone; a restored session has those blocks on both sides.
func Native(live reducer.State) reducer.State {
	gone := map[string]bool{}
	note := func(blocks []event.Block) {
		for _, b := range blocks {
			gone[b.ToolUseID] = gone[b.ToolUseID] || b.Type == event.BlockSubagent && added(b)
		}
	}
	note(live.Blocks)
	for _, sub := range live.Subagents {
		note(sub.Blocks)
	}
	out := reducer.State{Blocks: native(live.Blocks)}
	for _, sub := range live.Subagents {
		if gone[sub.ToolUseID] {
			continue
		}
		sub.Blocks = native(sub.Blocks)
		out.Subagents = append(out.Subagents, sub)
	}
	return out
}

func native(blocks []event.Block) []event.Block {
	return slices.DeleteFunc(slices.Clone(blocks), added)
}

// added reports whether a block is in no transcript of the agent.
func added(b event.Block) bool { return b.Source == event.SourceServer || reducer.Lost(b) }
