package parity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/test/parity"
)

func ptr[T any](v T) *T { return &v }

// unwritten returns a conversation with a subagent that has these blocks.
func unwritten(said ...event.Block) reducer.State {
	s := main(prompt("u"), call("q", event.ExecutionError), ref("q"))
	s.Subagents = []reducer.Subagent{thread("q", said...)}
	return s
}

// settled folds the difference, and checks that the result has no further one.
func settled(t *testing.T, live, restored reducer.State) reducer.State {
	t.Helper()
	for _, e := range loss.Difference(live, restored, loss.Options{}) {
		live = reducer.Reduce(live, e)
	}
	require.Empty(t, loss.Difference(live, restored, loss.Options{}))
	return live
}

// After a kill the live side becomes what the disk has, whichever side lost more.
func TestDifferenceEitherWay(t *testing.T) {
	t.Parallel()
	output := "done"
	sub := thread("q", text("s1", "x"))
	sub.AgentID, sub.Prompt, sub.Status, sub.Output = "a", "go", event.ExecutionSuccess, &output
	block := ref("q")
	block.Status, block.Execution, block.Name, block.SubagentID = event.StatusComplete, event.ExecutionSuccess, "mini", "agent-a"
	block.Input, block.Output = []byte(`"go"`), []byte(`"done"`)
	withSub := main(prompt("u"), call("q", event.ExecutionSuccess), block, result("q"), text("b", "y"))
	withSub.Subagents = []reducer.Subagent{sub}
	torn := result("t")
	torn.IsError, torn.Output = ptr(true), []byte(`"The agent ended before"`)
	asked := call("t", event.ExecutionSuccess)
	asked.Input = []byte(`{"command":"x"}`)
	undone := main(prompt("u"), call("q", event.ExecutionError), ref("q"))
	undone.Blocks[2].Status, undone.Blocks[2].Execution, undone.Blocks[2].Output = event.StatusError, event.ExecutionError, []byte(`null`)
	undone.Blocks[2].Input = []byte(`""`)
	undone.Subagents = []reducer.Subagent{thread("q", text("s1", "x"))}
	undone.Subagents[0].Status = event.ExecutionError
	done := main(prompt("u"), call("q", event.ExecutionSuccess), undone.Blocks[2])
	done.Blocks[2].Status, done.Blocks[2].Execution, done.Blocks[2].Output = event.StatusComplete, event.ExecutionSuccess, []byte(`"done"`)
	done.Subagents = []reducer.Subagent{thread("q", text("s1", "x"))}
	done.Subagents[0].Status, done.Subagents[0].Output = event.ExecutionSuccess, &output
	for name, c := range map[string]struct{ live, restored reducer.State }{
		"result stands otherwise":  {main(prompt("u"), call("t", event.ExecutionSuccess), result("t")), main(prompt("u"), call("t", event.ExecutionError), torn)},
		"call stands otherwise":    {main(prompt("u"), asked, result("t")), main(prompt("u"), call("t", event.ExecutionError), torn)},
		"subagent is not done":     {done, undone},
		"result said, not written": {main(prompt("u"), call("t", event.ExecutionSuccess), result("t")), main(prompt("u"), call("t", event.ExecutionError))},
		"result written, not said": {main(prompt("u"), call("t", event.ExecutionError)), main(prompt("u"), call("t", event.ExecutionSuccess), result("t"), text("a", "x"))},
		"only the last turn":       {main(prompt("u"), text("a", "x")), main(text("z", "before"), prompt("u"), text("a", "x"), text("b", "y"))},
		"lost, written after all":  {main(prompt("u"), lost(text("a", "x")), lost(text("b", "y"))), main(prompt("u"), text("a", "xyz"))},
		"subagent's thread":        {unwritten(text("s1", "x")), unwritten()},
		"whole subagent":           {main(prompt("u"), call("q", event.ExecutionError)), withSub},
	} {
		got := settled(t, c.live, c.restored)
		if name == "only the last turn" {
			c.restored.Blocks = c.restored.Blocks[1:]
		}
		diffs, err := parity.Compare(parity.Native(got), c.restored, parity.Rules{})
		require.NoError(t, err)
		require.Empty(t, diffs, "%s", name)
	}
}

// A lost call loses its subagent.
func TestLostCallLosesItsSubagent(t *testing.T) {
	t.Parallel()
	live := main(prompt("u"), call("q", event.ExecutionError), ref("q"))
	live.Subagents = []reducer.Subagent{thread("q", text("s", "x"))}
	restored := main(prompt("u"))
	diffs, err := parity.Compare(parity.Native(settled(t, live, restored)), restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, diffs)
}

// The same, if the agent wrote the thread but not its call.
func TestLostCallLeavesAnOrphan(t *testing.T) {
	t.Parallel()
	live := main(prompt("u"), call("q", event.ExecutionError), ref("q"))
	live.Subagents = []reducer.Subagent{thread("q")}
	restored := main(prompt("u"))
	restored.Subagents = []reducer.Subagent{thread("agent-7", text("s", "x"))}
	restored.Subagents[0].Status = event.ExecutionRunning
	after := settled(t, live, restored)
	restored.Subagents[0].Status = event.ExecutionError // the status that Sojourn sets on both sides
	diffs, err := parity.Compare(parity.Native(after), restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, diffs)
	require.NotEmpty(t, settled(t, main(prompt("u")), restored).Conversation("agent-7"), "the orphan is in the live conversation")
}

// Blocks that an agent never sends are not marked as lost.
func TestUnsentIsNotUnsaid(t *testing.T) {
	t.Parallel()
	live, restored := tree(thread("q", call("t", event.ExecutionSuccess))), tree(thread("q", text("s", "never sent"), call("t", event.ExecutionSuccess)))
	require.Empty(t, loss.Difference(live, restored, loss.Options{}))
}
