package frame_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/frame"
)

func text(id, said string) event.Block {
	return event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusComplete, Content: &said}
}

// lines returns a thread in short.
func lines(blocks []event.Block) (out []string) {
	for _, b := range blocks {
		switch b.Type {
		case event.BlockSystem:
			out = append(out, b.Subtype+": "+*b.Message)
		default:
			out = append(out, string(b.Type)+": "+*b.Content)
		}
	}
	return out
}

// The thread of a native subagent, and that of a child session, show how they began and ended.
func TestR138ThreadFrame(t *testing.T) {
	t.Parallel()
	prompt, at, took := "look around", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), int64(1500)
	whole := prompt + "\n[image]"
	ask := event.Block{ID: "m1", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &whole}
	s := reducer.State{
		Blocks: []event.Block{text("a", "main"), {ID: "r", Type: event.BlockSubagent, ToolUseID: "t1", Name: "reviewer", Timestamp: at}},
		Subagents: []reducer.Subagent{
			{ToolUseID: "t1", Status: event.ExecutionSuccess, Prompt: prompt, DurationMS: &took, Blocks: []event.Block{text("b", "fine")}},
			{ToolUseID: "t2", ChildSessionID: "s2", AgentID: "s2", Status: event.ExecutionError, Prompt: prompt, Output: new("no")},
			{ToolUseID: "t3", ChildSessionID: "s3", Status: event.ExecutionSuccess, Prompt: prompt, Output: new("fine"), Blocks: []event.Block{ask, text("c", "fine")}},
			{ToolUseID: "t4", Status: event.ExecutionRunning, Prompt: prompt},
			{ToolUseID: "t5", Status: event.ExecutionSuccess},
		},
	}
	framed := frame.State(s)
	require.Equal(t, s.Blocks, framed.Blocks, "the main conversation has no frame")
	for i, want := range [][]string{
		{"subagent_started: Subagent reviewer started", "user_message: look around", "assistant_text: fine", "subagent_completed: Subagent reviewer completed"},
		{"subagent_started: Subagent s2 started", "user_message: look around", "assistant_text: no", "subagent_failed: Subagent s2 failed"},
		{"subagent_started: Subagent t3 started", "user_message: look around\n[image]", "assistant_text: fine", "subagent_completed: Subagent t3 completed"},
		{"subagent_started: Subagent t4 started", "user_message: look around"},
		{"subagent_started: Subagent t5 started", "subagent_completed: Subagent t5 completed"},
	} {
		require.Equal(t, want, lines(framed.Subagents[i].Blocks))
	}
	first := framed.Subagents[0].Blocks
	require.Equal(t, at, first[0].Timestamp)
	require.Equal(t, &took, first[len(first)-1].DurationMS)
	ids := map[string]bool{}
	for _, b := range first {
		require.False(t, ids[b.ID], b.ID)
		ids[b.ID] = true
	}
	require.Len(t, s.Subagents[0].Blocks, 1, "the state that was given is as it was")
	require.Equal(t, reducer.State{}, frame.State(reducer.State{}))
}
