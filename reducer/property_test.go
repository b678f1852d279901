package reducer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/nasty"
)

// forSeeds runs a property on many generated sequences. A failure names the seed
// that reproduces it.
func forSeeds(t *testing.T, length int, property func(t *testing.T, g nasty.Generator, events []event.Event)) {
	t.Helper()
	t.Parallel()
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		g := nasty.New(seed)
		property(t, g, g.Events(length))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestI1Total(t *testing.T) {
	forSeeds(t, 80, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		_, err := json.Marshal(buildAll(events))
		require.NoError(t, err)
	})
}

// Values that no decoder would return must do no harm either.
func TestI1TotalOnWhatIsNotEvenJSON(t *testing.T) {
	t.Parallel()
	far := time.Date(30000, 1, 1, 0, 0, 0, 0, time.UTC)
	ctx := event.Context{Timestamp: far}
	events := []event.Event{
		{},
		{Payload: (*event.BlockUpsert)(nil)},
		{Payload: &event.BlockDelta{BlockID: "b", Delta: "x"}},
		{Payload: event.Unknown{Raw: json.RawMessage(`{`)}},
		{Context: ctx, Payload: event.BlockUpsert{Block: event.Block{
			ID: "b", Type: event.BlockToolUse, Timestamp: far, Input: json.RawMessage(`{"torn`),
			Metadata: map[string]json.RawMessage{"k": nil, "l": json.RawMessage("?")},
		}}},
		{Context: ctx, Payload: event.BlockUpsert{Block: event.Block{ID: "b", Output: json.RawMessage{}}}},
		{Payload: event.SubagentSpawned{ToolUseID: "main", Prompt: "\xff"}},
		{Payload: event.BlockUpsert{Block: event.Block{ID: "c", Type: "assistant_text", Content: new("\xff")}}},
	}
	s := reduceAll(State{}, events)
	require.Equal(t, encode(t, s), encode(t, buildAll(events)))
	require.JSONEq(t, `"{\"torn"`, string(s.Blocks[0].Input))
	require.True(t, s.Blocks[0].Timestamp.IsZero())
}

func TestI2Pure(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, g nasty.Generator, events []event.Event) {
		s := reduceAll(State{}, events[:59])
		before := encode(t, s)
		first, second := Reduce(s, events[59]), Reduce(s, events[59])
		require.Equal(t, first, second)
		require.Equal(t, before, encode(t, s))
	})
}

func TestI3SplitFoldIsWholeFold(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, g nasty.Generator, events []event.Event) {
		cut := g.IntN(len(events))
		whole := reduceAll(State{}, events)
		head := buildAll(events[:cut])
		tail := NewBuilder(head)
		var stored State
		require.NoError(t, json.Unmarshal([]byte(encode(t, head)), &stored))
		for _, e := range events[cut:] {
			tail.Add(e)
		}
		require.Equal(t, whole, tail.State())
		require.Equal(t, encode(t, whole), encode(t, reduceAll(stored, events[cut:])))
	})
}

func TestI4RepeatedIsNoOp(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		var s State
		var b Builder
		for _, e := range events {
			s = Reduce(s, e)
			b.Add(e)
			if e.Type() == "block:delta" {
				continue
			}
			require.True(t, s.Same(Reduce(s, e)), "%s twice", e.Type())
			built := b.State()
			b.Add(e)
			require.True(t, built.Same(b.State()), "%s twice in a Builder", e.Type())
		}
	})
}

func TestI5StateSurvivesJSON(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		s := buildAll(events)
		var back State
		require.NoError(t, json.Unmarshal([]byte(encode(t, s)), &back))
		require.Equal(t, encode(t, s), encode(t, back))
		for _, e := range events[len(events)-1:] {
			if e.Type() != "block:delta" {
				require.True(t, back.Same(Reduce(back, e)), "a repeated event is still a no-op")
			}
		}
	})
}

func TestI6BuilderReduceAndNaiveAgree(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, g nasty.Generator, events []event.Event) {
		var (
			s State
			b Builder
			n naive
		)
		for i, e := range events {
			s = Reduce(s, e)
			b.Add(e)
			n.add(e)
			want := canonical(t, n.encode())
			require.Equal(t, want, canonical(t, encode(t, s)), "Reduce, event %d %s", i, e.Type())
			if g.IntN(3) == 0 {
				require.Equal(t, s, b.State(), "Builder, event %d %s", i, e.Type())
			}
		}
		require.Equal(t, s, b.State())
	})
}

func TestI7StatesHandedOutNeverChange(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, g nasty.Generator, events []event.Event) {
		var (
			s      State
			b      Builder
			states []State
			texts  []string
		)
		for _, e := range events {
			s = Reduce(s, e)
			b.Add(e)
			states = append(states, s)
			if g.IntN(3) == 0 {
				states = append(states, b.State())
			}
			for len(texts) < len(states) {
				texts = append(texts, encode(t, states[len(texts)]))
			}
			// A branch from an old state must not be seen by its siblings.
			Reduce(states[g.IntN(len(states))], g.Event(99))
		}
		for i, s := range states {
			require.Equal(t, texts[i], encode(t, s), "state %d", i)
		}
	})
}

func TestI8NothingChangedIsTheSameState(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		var s State
		var b Builder
		for _, e := range events {
			next, built := Reduce(s, e), b.State()
			b.Add(e)
			equal := encode(t, s) == encode(t, next)
			require.Equal(t, equal, s.Same(next), "%s", e.Type())
			require.Equal(t, equal, built.Same(b.State()), "%s in a Builder", e.Type())
			s = next
		}
	})
}

func TestI9IdsAreUnique(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		s := buildAll(events)
		subagents := map[string]bool{}
		for _, sub := range s.Subagents {
			require.False(t, subagents[sub.ToolUseID], "two subagents %q", sub.ToolUseID)
			require.NotEmpty(t, sub.ToolUseID)
			subagents[sub.ToolUseID] = true
			requireUnique(t, sub.Blocks)
		}
		requireUnique(t, s.Blocks)
	})
}

func requireUnique(t *testing.T, blocks []event.Block) {
	t.Helper()
	seen := map[string]bool{}
	for _, b := range blocks {
		require.NotEmpty(t, b.ID)
		require.False(t, seen[b.ID], "two blocks %q", b.ID)
		seen[b.ID] = true
	}
}

func TestI10OnlyItsOwnConversation(t *testing.T) {
	forSeeds(t, 60, func(t *testing.T, _ nasty.Generator, events []event.Event) {
		var s State
		for _, e := range events {
			next := Reduce(s, e)
			own := lookup(next.Subagents, e.Context.Conversation(), e.Context.Conversation())
			if e.Context.Conversation() != event.Main {
				require.Equal(t, withoutRefs(s.Blocks), withoutRefs(next.Blocks), "%s", e.Type())
			}
			for i := range s.Subagents {
				if i != own || e.Context.Conversation() == event.Main {
					require.Equal(t, withoutRefs(s.Subagents[i].Blocks), withoutRefs(next.Subagents[i].Blocks), "%s", e.Type())
				}
			}
			s = next
		}
	})
}

func withoutRefs(blocks []event.Block) []event.Block {
	out := []event.Block{}
	for _, b := range blocks {
		if !strings.HasPrefix(b.ID, "subagent-block-") {
			out = append(out, b)
		}
	}
	return out
}

// No fold makes a conversation with an id twice, but a state is input too, and both folds
// must treat it alike.
func TestFoldsAgreeOnForeignStates(t *testing.T) {
	t.Parallel()
	twice := State{
		Blocks: []event.Block{
			{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusPending, Content: new("kept")},
			{ID: "b1", Type: event.BlockAssistantText, Status: event.StatusPending},
			{ID: "b2", Type: event.BlockToolUse},
		},
		Subagents: []Subagent{{ToolUseID: "t1", AgentID: "a1"}, {ToolUseID: "t1", AgentID: "a1"}},
	}
	for seed := range uint64(300) {
		g := nasty.New(seed)
		b, s := NewBuilder(twice), twice
		require.True(t, twice.Same(b.State()))
		for _, e := range append(g.Events(4), event.Event{Payload: event.SessionIdle{}}, g.Event(1), g.Event(2)) {
			b.Add(e)
			s = Reduce(s, e)
		}
		require.Equal(t, encode(t, s), encode(t, b.State()), "seed %d", seed)
	}
}
