package adaptertest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// atGate waits until the model holds back an answer at a gate.
func (r *Rig) atGate(name string) {
	r.t.Helper()
	require.NoError(r.t, r.Model.Waiting(r.t.Context(), name))
}

// AwaitFile waits until a tool has created a file in the workspace.
func (r *Rig) AwaitFile(name string) {
	r.t.Helper()
	path := filepath.Join(r.Workspace(), name)
	require.Eventually(r.t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, patience, 10*time.Millisecond, "the tool did not begin")
}

// begun waits until the tool that creates the file "begun" runs and its call was streamed.
// Without that an interrupt or a kill may find a call that the agent has written down and
// will never stream. in reports whether a conversation may have the call.
func (r *Rig) begun(in func(conversation string) bool) {
	r.t.Helper()
	r.AwaitFile("begun")
	r.Await("the call of the tool", func(e event.Event) bool {
		u, ok := e.Payload.(event.BlockUpsert)
		return ok && u.Block.Type == event.BlockToolUse && in(e.Context.Conversation()) && bytes.Contains(encoded(r.t, []event.Event{e}), []byte("begun"))
	})
}

func inMain(conversation string) bool { return conversation == event.Main }

// begunInside is begun for the tool of a subagent, if its thread is streamed at all.
func (r *Rig) begunInside() {
	r.t.Helper()
	if r.agent.Adapter.Info().Capabilities.LiveSubagents {
		r.begun(func(conversation string) bool { return !inMain(conversation) })
		return
	}
	r.AwaitFile("begun")
}

// endless is a script whose tool doesn't end and starts two others that don't either.
const endless = "TOOL bash: sleep 3000 & sleep 3001 & touch begun; sleep 3002"

func (r *Rig) playSubagent() {
	r.ok("SUBAGENT TOOL bash: echo in-the-subagent ANDTHEN SAY sub is done THEN SAY outer is done")
	require.Contains(r.t, r.Said(), "outer is done")
	live := r.Subagents(r.Live())
	require.Len(r.t, live, 1, "%s", r.tail())
	sub := live[0]
	require.Equal(r.t, event.ExecutionSuccess, sub.Status)
	if r.agent.Adapter.Info().Capabilities.LiveSubagents {
		requireThread(r, sub)
	}
	r.Parity()
	state, _ := r.Restored()
	restored := r.Subagents(state)
	require.Len(r.t, restored, 1)
	requireThread(r, restored[0])
	r.betweenSpawnAndEnd(sub.ToolUseID)
	r.WithSide()
}

// requireThread checks a subagent's prompt, its tool calls and its output.
func requireThread(r *Rig, sub reducer.Subagent) {
	r.t.Helper()
	if r.agent.Adapter.Info().Capabilities.LiveSubagents {
		require.True(r.t, r.agent.SealedTasks || strings.Contains(sub.Prompt, "echo in-the-subagent"), "%s", pretty(sub))
		require.NotNil(r.t, sub.Output)
		require.Contains(r.t, *sub.Output, "sub is done")
	}
	require.NotEmpty(r.t, sub.Blocks)
	if !r.agent.SealedTasks {
		require.Equal(r.t, event.BlockUserMessage, sub.Blocks[0].Type)
		require.Contains(r.t, *sub.Blocks[0].Content, "echo in-the-subagent")
	}
	kinds := map[event.BlockType]int{}
	for _, b := range sub.Blocks {
		kinds[b.Type]++
	}
	require.GreaterOrEqual(r.t, kinds[event.BlockToolUse], 1, "%s", pretty(sub))
	require.Equal(r.t, kinds[event.BlockToolUse], kinds[event.BlockToolResult], "%s", pretty(sub))
	require.True(r.t, slices.ContainsFunc(sub.Blocks, func(b event.Block) bool {
		return b.Type == event.BlockToolResult && strings.Contains(string(b.Output), "in-the-subagent")
	}), "%s", pretty(sub))
}

// betweenSpawnAndEnd checks that a subagent's events are between its start and its end.
func (r *Rig) betweenSpawnAndEnd(id string) {
	r.t.Helper()
	stage := 0
	for _, e := range r.Events() {
		switch p := e.Payload.(type) {
		case event.SubagentSpawned:
			require.LessOrEqual(r.t, stage, 1)
			require.Equal(r.t, id, p.ToolUseID)
			stage = 1 // it may be repeated with more fields
		case event.SubagentCompleted:
			require.Equal(r.t, 1, stage)
			stage = 2
		default:
			if e.Context.Conversation() == id {
				require.Equal(r.t, 1, stage, "%s", encoded(r.t, []event.Event{e}))
			}
		}
	}
	require.Equal(r.t, 2, stage)
}

func (r *Rig) playInterruptStream() {
	r.ok("SAY before")
	r.Send("SAY partly THEN GATE stop")
	r.atGate("stop")
	r.AwaitDelta("partly")
	idle := r.Interrupt()
	require.True(r.t, idle.Interrupted, "%s", pretty(idle))
	require.Empty(r.t, r.Left())
	r.ok("SAY goes on")
	require.Contains(r.t, r.Said(), "goes on")
	r.recalls("SAY before")
}

func (r *Rig) playInterruptTool() {
	r.Send(endless)
	r.begun(inMain)
	require.NotEmpty(r.t, r.Left(), "the tool is not below the agent")
	idle := r.Interrupt()
	require.True(r.t, idle.Interrupted, "%s", pretty(idle))
	require.Empty(r.t, r.Left())
	r.ok("TOOL bash: echo goes on")
	require.Contains(r.t, string(r.lastResult().Output), "goes on")
	for _, use := range r.Blocks(event.BlockToolUse) {
		require.NotEqual(r.t, event.ExecutionRunning, use.Execution)
	}
}
