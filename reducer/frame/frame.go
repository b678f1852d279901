// Package frame shows the threads of subagents with their start and end. A thread has what was
// said in it; how it began and ended is beside it (its prompt, status and output), for a subagent
// that the agent runs inside itself and for a child session alike. It is pure.
package frame

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// The subtypes of the system blocks at a thread's ends.
const (
	Started   = "subagent_started"
	Completed = "subagent_completed"
	Failed    = "subagent_failed"
)

// State returns a state in which each subagent's thread begins with a system block and its
// prompt as a user message, and ends with a system block once the subagent has ended. The blocks
// have the source server and ids of their own. The output of a thread without blocks, such as
// that of a child session whose conversation is not in the state, is its answer. The given state
// does not change.
func State(s reducer.State) reducer.State {
	framed := s
	framed.Subagents = nil
	for _, sub := range s.Subagents {
		sub.Blocks = thread(sub, reference(s, sub.ToolUseID))
		framed.Subagents = append(framed.Subagents, sub)
	}
	return framed
}

// reference returns the block that refers to a subagent; a zero one if there is none.
func reference(s reducer.State, toolUseID string) event.Block {
	conversations := [][]event.Block{s.Blocks}
	for _, sub := range s.Subagents {
		conversations = append(conversations, sub.Blocks)
	}
	for _, blocks := range conversations {
		for _, b := range blocks {
			if b.Type == event.BlockSubagent && b.ToolUseID == toolUseID {
				return b
			}
		}
	}
	return event.Block{}
}

func thread(sub reducer.Subagent, ref event.Block) []event.Block {
	name := cmp.Or(ref.Name, sub.AgentID, sub.ToolUseID)
	start := system(sub, Started, fmt.Sprintf("Subagent %s started", name))
	start.Timestamp = ref.Timestamp
	out := []event.Block{start}
	if sub.Prompt != "" && !asked(sub) {
		out = append(out, event.Block{
			ID: sub.ToolUseID + ":subagent_prompt", Type: event.BlockUserMessage, Status: event.StatusComplete,
			Source: event.SourceServer, Timestamp: ref.Timestamp, Content: &sub.Prompt,
		})
	}
	out = append(out, sub.Blocks...)
	if len(sub.Blocks) == 0 && sub.Output != nil && *sub.Output != "" {
		out = append(out, event.Block{
			ID: sub.ToolUseID + ":subagent_output", Type: event.BlockAssistantText, Status: event.StatusComplete,
			Source: event.SourceServer, Content: sub.Output,
		})
	}
	switch sub.Status {
	case event.ExecutionSuccess:
		return append(out, ended(sub, Completed, fmt.Sprintf("Subagent %s completed", name)))
	case event.ExecutionError:
		return append(out, ended(sub, Failed, fmt.Sprintf("Subagent %s failed", name)))
	}
	return out
}

// asked reports whether the thread has what was asked, as that of a child session has, perhaps in
// another form: a message of many parts is more than its text.
func asked(sub reducer.Subagent) bool {
	return slices.ContainsFunc(sub.Blocks, func(b event.Block) bool { return b.Type == event.BlockUserMessage })
}

func ended(sub reducer.Subagent, how, message string) event.Block {
	b := system(sub, how, message)
	b.DurationMS = sub.DurationMS
	return b
}

func system(sub reducer.Subagent, subtype, message string) event.Block {
	return event.Block{
		ID: sub.ToolUseID + ":" + subtype, Type: event.BlockSystem, Status: event.StatusComplete,
		Source: event.SourceServer, Subtype: subtype, Message: &message,
	}
}
