package parity

import (
	"cmp"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// inStep puts calls that were in progress at the same time, one after the other with
// nothing between, into one order on both sides, and results before the texts that began
// while their calls ended.
func inStep(live, restored []event.Block) (l, r []event.Block) {
	live, restored = resultsFirst(live), resultsFirst(restored)
	group := joined(live, atOnce(live), atOnce(restored))
	return byGroup(live, group), byGroup(restored, group)
}

// resultsFirst moves each result before the agent's texts that are right before it.
func resultsFirst(blocks []event.Block) []event.Block {
	out := slices.Clone(blocks)
	for i := 1; i < len(out); i++ {
		said := func(b event.Block) bool { return b.Type == event.BlockAssistantText || b.Type == event.BlockThinking }
		for at := i; at > 0 && out[at].Type == event.BlockToolResult && said(out[at-1]); at-- {
			out[at-1], out[at] = out[at], out[at-1]
		}
	}
	return out
}

// joined merges groups of the live side whose calls share a group on the restored side.
// Of calls that start in the same millisecond, one side may report the first as ended
// before the second starts.
func joined(blocks []event.Block, live, restored map[string]int) map[string]int {
	first := map[int]string{} // the first call of each group of the restored side
	for _, b := range blocks {
		id := b.ToolUseID
		if live[id] == 0 || restored[id] == 0 {
			continue
		}
		one, known := first[restored[id]]
		if !known {
			first[restored[id]] = id
			continue
		}
		from, to := live[id], live[one]
		for other, g := range live {
			if g == from {
				live[other] = to
			}
		}
	}
	return live
}

// atOnce numbers the groups of calls that were in progress at the same time.
func atOnce(blocks []event.Block) map[string]int {
	group := map[string]int{}
	open := map[string]bool{}
	n := 0
	for _, b := range blocks {
		switch b.Type {
		case event.BlockToolUse:
			if len(open) == 0 {
				n++
			}
			open[b.ToolUseID], group[b.ToolUseID] = true, n
		case event.BlockToolResult:
			delete(open, b.ToolUseID)
		default:
			clear(open)
		}
	}
	return group
}

// byGroup sorts the blocks of each group by their calls.
func byGroup(blocks []event.Block, group map[string]int) []event.Block {
	of := func(b event.Block) int {
		if b.Type != event.BlockToolUse && b.Type != event.BlockToolResult {
			return 0
		}
		return group[b.ToolUseID]
	}
	out := slices.Clone(blocks)
	for i := 0; i < len(out); {
		end := i + 1
		for end < len(out) && of(out[i]) > 0 && of(out[end]) == of(out[i]) {
			end++
		}
		slices.SortStableFunc(out[i:end], func(a, b event.Block) int {
			return cmp.Or(cmp.Compare(a.ToolUseID, b.ToolUseID), cmp.Compare(b.Type, a.Type))
		})
		i = end
	}
	return out
}
