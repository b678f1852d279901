package session

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

func said(text string) event.Block {
	return event.Block{ID: text, Type: event.BlockAssistantText, Content: &text}
}

func spawned(toolUseID string) event.Block {
	return event.Block{ID: "ref-" + toolUseID, Type: event.BlockSubagent, ToolUseID: toolUseID}
}

// TestTreeIsGrafted: children and grandchildren are in the threads of the subagents with
// their ids; two calls with one id stay two; a child that is missing is a fault, and a circle
// ends.
func TestTreeIsGrafted(t *testing.T) {
	t.Parallel()
	sub := func(id, child string, blocks ...event.Block) reducer.Subagent {
		return reducer.Subagent{ToolUseID: id, ChildSessionID: child, Blocks: blocks}
	}
	sessions := map[string]reducer.State{
		"a":  {Blocks: []event.Block{said("in a"), spawned("call-1")}, Subagents: []reducer.Subagent{sub("call-1", "aa")}},
		"aa": {Blocks: []event.Block{said("in aa"), spawned("back")}, Subagents: []reducer.Subagent{sub("back", "root")}},
	}
	root := reducer.State{
		Blocks:    []event.Block{said("in root"), spawned("call-1"), spawned("call-2"), spawned("native")},
		Subagents: []reducer.Subagent{sub("call-1", "a"), sub("call-2", "gone"), sub("native", "", said("a thread"))},
	}
	var faults []string
	g := tree{faults: &faults, seen: map[string]bool{"root": true}, show: func(id string) (Conversation, error) {
		s, ok := sessions[id]
		if !ok {
			return Conversation{}, errors.New("not found")
		}
		return Conversation{State: s}, nil
	}}
	g.graft(&root)
	threads := map[string][]string{}
	for _, s := range root.Subagents {
		for _, b := range s.Blocks {
			threads[s.ToolUseID] = append(threads[s.ToolUseID], b.ID+b.ToolUseID)
		}
	}
	require.Equal(t, map[string][]string{
		"call-1":   {"in a", "ref-call-1a/call-1"},
		"a/call-1": {"in aa", "ref-backback"},
		"native":   {"a thread"},
	}, threads)
	require.Equal(t, []string{"child session gone: not found"}, faults)
}
