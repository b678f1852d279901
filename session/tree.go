package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// ShowTree is Show with the conversations of the session's children, and of theirs, in the
// threads of the subagents with their ids ([reducer.Subagent]). A child that can't be read is
// a fault.
func (c *Client) ShowTree(ctx context.Context, id string, from From) (Conversation, error) {
	conv, err := c.Show(ctx, id, from)
	if err != nil {
		return conv, err
	}
	t := tree{
		faults: &conv.Faults, seen: map[string]bool{id: true},
		show: func(child string) (Conversation, error) { return c.Show(ctx, child, from) },
	}
	t.graft(&conv.State)
	return conv, ctx.Err()
}

// tree adds children to a state.
type tree struct {
	show   func(id string) (Conversation, error)
	faults *[]string
	// seen are the sessions in the state: a child has one parent, unless a program started
	// sessions by hand.
	seen map[string]bool
}

// graft adds the children of a state's subagents, and theirs.
func (t *tree) graft(s *reducer.State) {
	for i := 0; i < len(s.Subagents); i++ {
		sub := &s.Subagents[i]
		child := sub.ChildSessionID
		if child == "" || t.seen[child] {
			continue
		}
		t.seen[child] = true
		conv, err := t.show(child)
		if err != nil {
			*t.faults = append(*t.faults, fmt.Sprintf("child session %s: %v", child, err))
			continue
		}
		*t.faults = append(*t.faults, conv.Faults...)
		for _, below := range conv.State.Subagents {
			// Agents number their calls, so two sessions may have one of the same id.
			if slices.ContainsFunc(s.Subagents, func(had reducer.Subagent) bool { return had.ToolUseID == below.ToolUseID }) {
				rename(&conv.State, below.ToolUseID, child+"/"+below.ToolUseID)
			}
		}
		sub.Blocks = conv.State.Blocks
		s.Subagents = append(s.Subagents, conv.State.Subagents...)
	}
}

// rename changes the id of a subagent, in its thread and wherever it is referred to.
func rename(s *reducer.State, from, to string) {
	conversations := [][]event.Block{s.Blocks}
	for i, sub := range s.Subagents {
		if sub.ToolUseID == from {
			s.Subagents[i].ToolUseID = to
		}
		conversations = append(conversations, sub.Blocks)
	}
	for _, blocks := range conversations {
		for i := range blocks {
			if blocks[i].ToolUseID == from {
				blocks[i].ToolUseID = to
			}
		}
	}
}
