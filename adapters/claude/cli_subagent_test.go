package claude

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// awaitFile waits for what a tool of the agent writes into the workspace.
func (x *exchange) awaitFile(name string) {
	x.t.Helper()
	require.Eventually(x.t, func() bool {
		_, err := os.Stat(filepath.Join(x.launch.Workspace, name))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// thread is a subagent's blocks, by the order in which the subagents began.
func (x *exchange) thread(at int) []event.Block {
	x.t.Helper()
	require.Greater(x.t, len(x.state().Subagents), at)
	return x.state().Subagents[at].Blocks
}

// The program keeps the end of an interrupted subagent to itself, and writes
// it down; live it is told all the same.
func TestRealSubagentInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, ends string
		wait         func(*exchange)
	}{
		"tool":   {"SUBAGENT TOOL bash: touch begun; sleep 30", "[Request interrupted by user for tool use]", (*exchange).awaitBegun},
		"text":   {"SUBAGENT THINK about it ANDTHEN GATE deep", "[Request interrupted by user]", (*exchange).awaitGate},
		"nested": {"SUBAGENT TWO ANDTHEN SUBAGENT TOOL bash: touch begun; sleep 30", "[Request interrupted by user for tool use]", (*exchange).awaitBegun},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := realAgent(t)
			x.start(adapters.Profile{})
			x.send(c.script)
			c.wait(x)
			x.write("i1", adapters.Interrupt{})
			require.True(t, x.await(is[event.SessionIdle]).Payload.(event.SessionIdle).Interrupted)
			x.ask("SAY after")
			x.stop()
			blocks := x.thread(0)
			last := blocks[len(blocks)-1]
			require.Equal(t, c.ends, *last.Message)
			for _, b := range blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s is over", b.ID)
			}
			x.requireParity()
		})
	}
}

func (x *exchange) awaitBegun() { x.awaitFile("begun") }

func (x *exchange) awaitGate() {
	x.t.Helper()
	require.NoError(x.t, x.model.Waiting(x.t.Context(), "deep"))
}

// An interrupt stops a subagent in the background too, of which the session's
// own transcript says nothing.
func TestRealBackgroundInterrupted(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		x := realAgent(t)
		x.start(adapters.Profile{})
		x.send("SUBAGENTBG TOOL bash: touch begun; sleep 30 ANDTHEN SAY never")
		x.await(billed)
		x.awaitFile("begun")
		x.write("i1", adapters.Interrupt{})
		done := x.await(is[event.SubagentCompleted]).Payload.(event.SubagentCompleted)
		require.Equal(t, event.SubagentFailed, done.Status)
		require.True(t, x.await(is[event.SessionIdle]).Payload.(event.SessionIdle).Interrupted)
		if more {
			x.ask("SAY after")
		}
		x.stop()
		x.requireParity()
	}
}

// billed is what a turn costs, told when the program is done with it.
func billed(e event.Event) bool {
	m, ok := e.Payload.(event.MetadataUpdate)
	return ok && m.Usage != nil
}

// A turn lasts as long as its subagents in the background, and what the
// program makes of their reports: it ends once.
func TestRealBackgroundIsPartOfTheTurn(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.send("SUBAGENTBG TOOL bash: sleep 1 ANDTHEN SAY from behind THEN WAITAGENT THEN SAY all done")
	idles := 0
	x.await(func(e event.Event) bool {
		if is[event.SessionIdle](e) {
			idles++
		}
		u, ok := e.Payload.(event.BlockUpsert)
		return ok && u.Block.Content != nil && *u.Block.Content == "all done"
	})
	require.Zero(t, idles)
	x.await(is[event.SessionIdle])
	x.stop()
	x.requireParity()
}

// A subagent asks for permission in its own conversation.
func TestRealSubagentPermission(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.launch.Permission = adapters.PermissionAsk
	x.start(adapters.Profile{})
	x.send("SUBAGENT TOOL bash: touch one ANDTHEN TOOL bash: touch two ANDTHEN SAY end")
	var spawned string
	for _, allow := range []bool{true, false} {
		e := x.await(func(e event.Event) bool {
			if s, ok := e.Payload.(event.SubagentSpawned); ok {
				spawned = s.ToolUseID
			}
			return is[event.PermissionRequested](e)
		})
		asked := e.Payload.(event.PermissionRequested)
		require.Equal(t, spawned, e.Context.ConversationID)
		require.Equal(t, "Bash", asked.ToolName)
		x.write("answer", adapters.Answer{RequestID: asked.RequestID, Allow: allow, Message: "not now", Input: asked.Input})
		require.Equal(t, spawned, x.await(is[event.PermissionResolved]).Context.ConversationID)
	}
	x.await(is[event.SessionIdle])
	require.FileExists(t, filepath.Join(x.launch.Workspace, "one"))
	require.NoFileExists(t, filepath.Join(x.launch.Workspace, "two"))
	x.stop()
	require.Contains(t, toJSON(t, x.thread(0)), `"not now"`)
	x.requireParity()
}
