package reducer

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func in(conv string, p event.Payload) event.Event {
	return event.Event{Payload: p, Context: event.Context{ConversationID: conv}}
}

func upsertOf(b event.Block) event.BlockUpsert { return event.BlockUpsert{Block: b} }

func textBlock(id string) event.BlockUpsert {
	return upsertOf(event.Block{ID: id, Type: event.BlockAssistantText})
}

func requireAgreement(t *testing.T, events []event.Event) State {
	t.Helper()
	var n naive
	for _, e := range events {
		n.add(e)
	}
	s := reduceAll(State{}, events)
	require.Equal(t, canonical(t, n.encode()), canonical(t, encode(t, s)))
	require.Equal(t, s, buildAll(events))
	return s
}

// The fast path for deltas must not be used once the ids with which it was recorded mean
// another block.
func TestHotBlockIsForgottenWhenItsConversationIDMovesOn(t *testing.T) {
	t.Parallel()
	delta := in("a1", event.BlockDelta{BlockID: "b", Delta: "x"})
	t.Run("a subagent takes the id as its toolUseId", func(t *testing.T) {
		t.Parallel()
		s := requireAgreement(t, []event.Event{
			in("", event.SubagentSpawned{ToolUseID: "t1", AgentID: "a1"}),
			in("t1", textBlock("b")), delta,
			in("", event.SubagentSpawned{ToolUseID: "a1"}), delta,
		})
		require.Equal(t, "x", *s.Subagents[0].Blocks[0].Content)
	})
	t.Run("an earlier subagent gets the id as its agentId", func(t *testing.T) {
		t.Parallel()
		s := requireAgreement(t, []event.Event{
			in("t1", textBlock("b")),
			in("", event.SubagentSpawned{ToolUseID: "t2", AgentID: "a1"}),
			in("t2", textBlock("b")), delta,
			in("", event.SubagentCompleted{ToolUseID: "t1", AgentID: "a1"}), delta,
		})
		require.Equal(t, "x", *s.Subagents[0].Blocks[0].Content)
		require.Equal(t, "x", *s.Subagents[1].Blocks[0].Content)
	})
	t.Run("the block becomes one without text", func(t *testing.T) {
		t.Parallel()
		s := requireAgreement(t, []event.Event{
			in("main", textBlock("b")), in("main", event.BlockDelta{BlockID: "b", Delta: "x"}),
			in("main", upsertOf(event.Block{ID: "b", Type: event.BlockSystem})),
			in("main", event.BlockDelta{BlockID: "b", Delta: "y"}),
		})
		require.Equal(t, "x", *s.Blocks[0].Content)
	})
}

// Idleness drops blocks from the middle; later blocks must still be found, in
// order.
func TestBuilderFindsBlocksAfterADrop(t *testing.T) {
	t.Parallel()
	var events []event.Event
	for _, id := range strings.Split("a b c d e f g h", " ") {
		events = append(events, in("main", textBlock(id)))
		if id > "c" {
			events = append(events, in("main", event.BlockDelta{BlockID: id, Delta: id}))
		}
	}
	events = append(events, in("main", event.SessionIdle{}), in("main", textBlock("i")),
		in("main", event.BlockDelta{BlockID: "d", Delta: "!"}), in("main", textBlock("a")))
	s := requireAgreement(t, events)
	var ids []string
	for _, b := range s.Blocks {
		ids = append(ids, b.ID)
	}
	require.Equal(t, "d e f g h i a", strings.Join(ids, " "))
}

func TestBuilderSharesWhatDidNotChange(t *testing.T) {
	t.Parallel()
	var b Builder
	b.Add(in("main", textBlock("m")))
	b.Add(in("t1", textBlock("s")))
	before := b.State()
	b.Add(in("t1", event.BlockDelta{BlockID: "s", Delta: "x"}))
	after := b.State()
	require.True(t, sameSlice(before.Blocks, after.Blocks))
	require.False(t, before.Same(after))
	require.Equal(t, "", *before.Subagents[0].Blocks[0].Content)
}

func TestReduceSharesWhatDidNotChange(t *testing.T) {
	t.Parallel()
	before := reduceAll(State{}, []event.Event{in("main", textBlock("m")), in("t1", textBlock("s")), in("t2", textBlock("s"))})
	after := Reduce(before, in("t1", event.BlockDelta{BlockID: "s", Delta: "x"}))
	require.True(t, sameSlice(before.Blocks, after.Blocks))
	require.True(t, sameSlice(before.Subagents[1].Blocks, after.Subagents[1].Blocks))
	require.False(t, before.Same(after))
}

func TestFoldKeepsTheGoodPart(t *testing.T) {
	t.Parallel()
	torn := errors.New("torn")
	s, err := Fold(func(yield func(event.Event, error) bool) {
		_ = yield(in("main", textBlock("b")), nil) && yield(event.Event{}, torn)
	})
	require.ErrorIs(t, err, torn)
	require.Len(t, s.Blocks, 1)
}
