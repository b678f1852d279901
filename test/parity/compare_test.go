package parity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

func text(id, content string) event.Block {
	return event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusComplete, Content: &content}
}

func prompt(id string) event.Block {
	b := text(id, "hi")
	b.Type = event.BlockUserMessage
	return b
}

func lost(b event.Block) event.Block {
	b.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
	return b
}

func main(blocks ...event.Block) reducer.State { return reducer.State{Blocks: blocks} }

func thread(id string, blocks ...event.Block) reducer.Subagent {
	return reducer.Subagent{ToolUseID: id, Blocks: blocks}
}

func tree(subs ...reducer.Subagent) reducer.State { return reducer.State{Subagents: subs} }

func ref(toolUseID string) event.Block {
	return event.Block{ID: event.SubagentBlockID(toolUseID), Type: event.BlockSubagent, ToolUseID: toolUseID}
}

func call(id string, how event.Execution) event.Block {
	return event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusComplete, ToolUseID: id, Execution: how, Input: []byte("{}")}
}

func result(id string) event.Block {
	failed := false
	return event.Block{ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: id, IsError: &failed, Output: []byte("null")}
}

func server(b event.Block) event.Block {
	b.Source = event.SourceServer
	return b
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const done = event.ExecutionSuccess
	later := text("a", "x")
	later.Timestamp = time.Unix(9, 0)
	later.DurationMS = new(int64)
	for name, c := range map[string]struct {
		live, restored reducer.State
		rules          parity.Rules
		want           int
	}{
		"equal":       {main(text("a", "x")), main(text("a", "x")), parity.Rules{}, 0},
		"times aside": {main(later), main(text("a", "x")), parity.Rules{}, 0},
		"content":     {main(text("a", "x")), main(text("a", "y")), parity.Rules{}, 1},
		"id":          {main(text("a", "x")), main(text("b", "x")), parity.Rules{}, 1},
		"order":       {main(text("a", "x"), text("b", "y")), main(text("b", "y"), text("a", "x")), parity.Rules{}, 2},
		"calls at once": {main(call("p", done), call("q", done), result("p"), result("q")),
			main(call("q", done), result("q"), call("p", done), result("p")), parity.Rules{}, 4},
		"a text overtakes a result": {main(call("p", done), text("a", "x"), result("p")),
			main(call("p", done), result("p"), text("a", "x")), parity.Rules{}, 2},
		"missing live":           {main(), main(text("a", "x")), parity.Rules{}, 1},
		"missing restored":       {main(text("a", "x")), main(), parity.Rules{}, 1},
		"lost":                   {main(lost(text("a", "x"))), main(lost(text("a", "x"))), parity.Rules{}, 0},
		"lost is no excuse":      {main(lost(text("a", "x"))), main(), parity.Rules{}, 1},
		"lost is no excuse back": {main(), main(lost(text("a", "x"))), parity.Rules{}, 1},
		"server":                 {main(server(text("a", "x"))), main(), parity.Rules{}, 1},
		"lost thread":            {tree(thread("t", lost(text("a", "x")))), tree(), parity.Rules{}, 1},
		"ungiven":                {main(prompt("p:1")), main(prompt("u")), parity.Rules{UngivenPrefix: "p:"}, 0},
		"given":                  {main(prompt("q")), main(prompt("u")), parity.Rules{UngivenPrefix: "p:"}, 1},
		"ungiven is for prompts": {main(text("p:1", "x")), main(text("u", "x")), parity.Rules{UngivenPrefix: "p:"}, 1},
		"no common ids":          {main(text("a", "x")), main(text("b", "x")), parity.Rules{NoCommonIDs: true}, 0},
		"thread":                 {tree(thread("t", text("a", "x"))), tree(thread("t", text("a", "y"))), parity.Rules{}, 1},
		"thread missing":         {tree(), tree(thread("t")), parity.Rules{}, 1},
		"unsent text":            {tree(thread("t")), tree(thread("t", text("a", "y"))), parity.Rules{UnsentText: true}, 0},
		"unsent tool":            {tree(thread("t")), tree(thread("t", ref("q"))), parity.Rules{UnsentText: true}, 1},
		"deep": {tree(thread("t", ref("d"))), tree(thread("t", ref("d")), thread("d", text("a", "y"))),
			parity.Rules{UnsentDepth: 2}, 0},
		"deep but sent": {tree(thread("t", ref("d"))), tree(thread("t", ref("d")), thread("d", text("a", "y"))),
			parity.Rules{UnsentDepth: 3}, 1},
		"all threads unsent": {tree(), tree(thread("t", text("a", "y"))), parity.Rules{UnsentDepth: 1}, 0},
	} {
		got, err := parity.Compare(c.live, c.restored, c.rules)
		require.NoError(t, err, name)
		require.Len(t, got, c.want, "%s: %v", name, got)
	}
}

// A cycle of references, which no agent creates, doesn't make Compare loop.
func TestCompareCycle(t *testing.T) {
	t.Parallel()
	s := tree(thread("a", ref("b")), thread("b", ref("a")))
	got, err := parity.Compare(s, s, parity.Rules{UnsentDepth: 5})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestDifferenceReads(t *testing.T) {
	t.Parallel()
	got, err := parity.Compare(main(text("a", "x")), main(), parity.Rules{})
	require.NoError(t, err)
	require.Contains(t, got[0].String(), "main block 0")
	require.Contains(t, got[0].String(), `"content":"x"`)
}

// Native removes exactly the blocks that are marked as being in no transcript of the
// agent.
func TestNative(t *testing.T) {
	t.Parallel()
	gone := lost(ref("gone"))
	live := main(prompt("u"), lost(text("a", "half")), server(text("b", "notice")), ref("t"), gone)
	live.Subagents = []reducer.Subagent{thread("t", text("c", "kept"), lost(text("d", "half"))), thread("gone", text("e", "x"))}
	want := main(prompt("u"), ref("t"))
	want.Subagents = []reducer.Subagent{thread("t", text("c", "kept"))}
	require.Equal(t, want, parity.Native(live))
	require.Len(t, live.Blocks, 5, "the live one is unchanged")
}
