package claude

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// firstThread returns the first subagent's blocks.
func firstThread(t *testing.T, r *adaptertest.Rig) []event.Block {
	t.Helper()
	require.NotEmpty(t, r.Live().Subagents)
	return r.Live().Subagents[0].Blocks
}

// The program does not stream the end of an interrupted subagent, but writes it
// to disk; live it is emitted all the same.
func TestRealSubagentInterrupted(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	for name, c := range map[string]struct {
		script, ends string
		wait         func(*testing.T, *adaptertest.Rig)
	}{
		"tool":   {"SUBAGENT TOOL bash: touch begun; sleep 3000", "[Request interrupted by user for tool use]", awaitStarted},
		"text":   {"SUBAGENT THINK about it ANDTHEN GATE deep", "[Request interrupted by user]", awaitTextAndGate},
		"nested": {"SUBAGENT TWO ANDTHEN SUBAGENT TOOL bash: touch begun; sleep 3000", "[Request interrupted by user for tool use]", awaitNested},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := started(t, adaptertest.Options{})
			r.Send(c.script)
			c.wait(t, r)
			r.Say("i1", adapters.Interrupt{})
			require.True(t, r.AwaitIdle().Interrupted)
			r.Ask("SAY after")
			r.Stop()
			blocks := firstThread(t, r)
			last := blocks[len(blocks)-1]
			require.Equal(t, c.ends, *last.Message)
			for _, b := range blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s is over", b.ID)
			}
			r.Finish()
		})
	}
}

// awaitStarted waits until the subagent's tool runs and its call was streamed.
func awaitStarted(_ *testing.T, r *adaptertest.Rig) {
	r.Await("the call", callOf("touch begun"))
	r.AwaitFile("begun")
}

// awaitNested waits until the tool of a subagent's subagent runs, of which nothing but its
// start is streamed.
func awaitNested(_ *testing.T, r *adaptertest.Rig) {
	spawned := map[string]bool{} // a second event names the agent
	r.Await("the second subagent", func(e event.Event) bool {
		if s, ok := e.Payload.(event.SubagentSpawned); ok {
			spawned[s.ToolUseID] = true
		}
		return len(spawned) == 2
	})
	r.AwaitFile("begun")
}

// callOf reports whether an event has the call of a command.
func callOf(command string) func(event.Event) bool {
	return func(e event.Event) bool {
		u, ok := e.Payload.(event.BlockUpsert)
		return ok && u.Block.Type == event.BlockToolUse && strings.Contains(string(u.Block.Input), `"`+command)
	}
}

// awaitTextAndGate waits until the model is at the gate and the text before it was
// streamed: an interrupt before that finds a text that the program has written down and
// will never stream.
func awaitTextAndGate(t *testing.T, r *adaptertest.Rig) {
	r.Await("the text before the gate", func(e event.Event) bool {
		u, ok := e.Payload.(event.BlockUpsert)
		return ok && u.Block.Content != nil && *u.Block.Content == "I thought about: about it"
	})
	require.NoError(t, r.Model.Waiting(t.Context(), "deep"))
}

// An interrupt also stops a subagent in the background, of which the session's
// own transcript has nothing.
func TestRealBackgroundInterrupted(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	for _, more := range []bool{false, true} {
		r := started(t, adaptertest.Options{})
		r.Send("SUBAGENTBG TOOL bash: touch begun; sleep 3000 ANDTHEN SAY never")
		called, paid := false, false // in either order
		r.Await("the bill and the call", func(e event.Event) bool {
			called, paid = called || callOf("touch begun")(e), paid || billed(e)
			return called && paid
		})
		r.AwaitFile("begun")
		r.Say("i1", adapters.Interrupt{})
		done := r.Await("SubagentCompleted", adaptertest.Is[event.SubagentCompleted]).Payload.(event.SubagentCompleted)
		require.Equal(t, event.SubagentFailed, done.Status)
		require.True(t, r.AwaitIdle().Interrupted)
		if more {
			r.Ask("SAY after")
		}
		// The subagent's output follows the turn's end.
		r.Finish()
	}
}

// billed reports whether an event has a turn's cost, which is sent when the
// program has finished the turn.
func billed(e event.Event) bool {
	m, ok := e.Payload.(event.MetadataUpdate)
	return ok && m.Usage != nil
}

// A turn lasts as long as its subagents in the background, including the
// program's reaction to their reports: it ends once.
func TestRealBackgroundIsPartOfTheTurn(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	r.Send("SUBAGENTBG TOOL bash: sleep 1 ANDTHEN SAY from behind THEN WAITAGENT THEN SAY all done")
	idles := 0
	r.Await("the last word", func(e event.Event) bool {
		if adaptertest.Is[event.SessionIdle](e) {
			idles++
		}
		u, ok := e.Payload.(event.BlockUpsert)
		return ok && u.Block.Content != nil && *u.Block.Content == "all done"
	})
	require.Zero(t, idles)
	r.AwaitIdle()
	r.Stop()
	r.Finish()
}

// A subagent asks for permission in its own conversation.
func TestRealSubagentPermission(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{Permission: adapters.PermissionAsk})
	r.Send("SUBAGENT TOOL bash: touch one ANDTHEN TOOL bash: touch two ANDTHEN SAY end")
	var spawned string
	for _, allow := range []bool{true, false} {
		e := r.Await("a permission request", func(e event.Event) bool {
			if s, ok := e.Payload.(event.SubagentSpawned); ok {
				spawned = s.ToolUseID
			}
			return adaptertest.Is[event.PermissionRequested](e)
		})
		asked := e.Payload.(event.PermissionRequested)
		require.Equal(t, spawned, e.Context.ConversationID)
		require.Equal(t, "Bash", asked.ToolName)
		r.Answer(asked, allow, "not now", nil)
		require.Equal(t, spawned, r.Await("PermissionResolved", adaptertest.Is[event.PermissionResolved]).Context.ConversationID)
	}
	r.AwaitIdle()
	require.FileExists(t, filepath.Join(r.Workspace(), "one"))
	require.NoFileExists(t, filepath.Join(r.Workspace(), "two"))
	r.Stop()
	require.Contains(t, toJSON(t, firstThread(t, r)), `"not now"`)
	r.Finish()
}
