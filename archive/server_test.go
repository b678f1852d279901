package archive

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

func notice(id string) event.Event {
	return event.Event{
		Payload: event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockSystem, Status: event.StatusComplete, Source: event.SourceServer, Message: new("notice " + id)}},
		Context: event.Context{Source: event.SourceServer},
	}
}

func text(conversation, id string) event.Event {
	return event.Event{
		Payload: event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("text " + id)}},
		Context: event.Context{ConversationID: conversation, Source: event.SourceRunner},
	}
}

func in(conversation string, ev event.Event) event.Event {
	ev.Context.ConversationID = conversation
	return ev
}

func sequence(events ...event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func blockIDs(blocks []event.Block) (ids []string) {
	for _, b := range blocks {
		ids = append(ids, b.ID)
	}
	return ids
}

func after(id string, ev event.Event) ServerEntry {
	return ServerEntry{ID: "e-" + ev.Payload.(event.BlockUpsert).Block.ID, Anchor: Anchor{ev.Context.ConversationID, id}, Event: ev}
}

func TestMergePlaces(t *testing.T) {
	t.Parallel()
	spawn := event.Event{Payload: event.SubagentSpawned{ToolUseID: "tool", Prompt: "do"}}
	native := sequence(text("", "1"), text("", "2"), text("", "1"), spawn, text("tool", "s1"), text("tool", "s2"), text("", "3"))
	own := []ServerEntry{
		after("", notice("a")), after("2", notice("b")), after("2", notice("c")), after("c", notice("d")), after("3", notice("e")),
		after("s1", in("tool", notice("f"))), after("", in("tool", notice("g"))), after(event.SubagentBlockID("tool"), notice("h")),
		after("", in("other", notice("i"))),
	}
	state, err := reducer.Fold(Merge(native, own))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "1", "2", "b", "c", "d", event.SubagentBlockID("tool"), "h", "3", "e"}, blockIDs(state.Blocks))
	require.Equal(t, []string{"g", "s1", "f", "s2"}, blockIDs(state.Subagents[0].Blocks))
	require.Equal(t, []string{"i"}, blockIDs(state.Subagents[1].Blocks))
}

func TestMergeLostAnchor(t *testing.T) {
	t.Parallel()
	var events []event.Event
	var errs []error
	for ev, err := range Merge(sequence(text("", "1")), []ServerEntry{after("gone", notice("a")), after("a", notice("b")), after("1", notice("c"))}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		events = append(events, ev)
	}
	state, err := reducer.Fold(sequence(events...))
	require.NoError(t, err)
	require.Equal(t, []string{"1", "c", "a", "b"}, blockIDs(state.Blocks))
	require.Len(t, errs, 1)
	require.ErrorIs(t, errs[0], ErrAnchorLost)
	require.ErrorContains(t, errs[0], `"gone"`)
}

// A lost block is restored at its place. Entries anchored to it before it was
// lost follow it, and later ones follow the block that the agent has created
// under its id since.
func TestMergeLostBlocks(t *testing.T) {
	t.Parallel()
	gone := func(conversation, id, words string) event.Event {
		b := event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusError, Source: event.SourceServer, Content: new(words)}
		b.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
		return event.Event{Payload: event.BlockUpsert{Block: b}, Context: event.Context{ConversationID: conversation, Source: event.SourceServer}}
	}
	spawn := event.Event{Payload: event.SubagentSpawned{ToolUseID: "call", AgentID: "agent"}, Context: event.Context{Source: event.SourceServer}}
	for name, c := range map[string]struct {
		native []event.Event
		own    []ServerEntry
		main   []string
		thread []string
	}{
		"in its place": {
			native: []event.Event{text("", "1"), text("", "2")},
			own:    []ServerEntry{after("1", gone("", "x", "half")), after("1", notice("a"))},
			main:   []string{"1", "x", "a", "2"},
		},
		"before and behind": {
			native: []event.Event{text("", "1"), text("", "2"), text("", "x"), text("", "3")},
			own:    []ServerEntry{after("x", notice("a")), after("1", gone("", "x", "half")), after("x", notice("b"))},
			main:   []string{"1", "a", "2", "x", "b", "3"},
		},
		"twice": {
			native: []event.Event{text("", "1"), text("", "2")},
			own:    []ServerEntry{after("1", gone("", "x", "half")), {ID: "again", Anchor: Anchor{AfterBlockID: "2"}, Event: gone("", "x", "again")}},
			main:   []string{"1", "2", "x"},
		},
		"twice, and before": {
			native: []event.Event{text("", "1"), text("", "2")},
			own:    []ServerEntry{after("x", notice("a")), after("1", gone("", "x", "half")), {ID: "again", Anchor: Anchor{AfterBlockID: "2"}, Event: gone("", "x", "again")}},
			main:   []string{"1", "a", "2", "x"},
		},
		"empty at last": {
			native: []event.Event{text("", "1")},
			own:    []ServerEntry{after("1", gone("", "x", "half")), {ID: "again", Anchor: Anchor{AfterBlockID: "1"}, Event: gone("", "x", "")}},
			main:   []string{"1"},
		},
		"a thread without its call": {
			native: []event.Event{text("", "1"), text("agent", "s1"), text("agent", "s2")},
			own: []ServerEntry{
				{ID: "spawn", Anchor: Anchor{AfterBlockID: "1"}, Event: spawn},
				after("", gone("call", "x", "half")), after("s1", gone("call", "y", "half")),
			},
			main:   []string{"1", event.SubagentBlockID("call")},
			thread: []string{"x", "s1", "y", "s2"},
		},
	} {
		state, err := reducer.Fold(Merge(sequence(c.native...), c.own))
		require.NoError(t, err, name)
		require.Equal(t, c.main, blockIDs(state.Blocks), name)
		require.Equal(t, c.thread, blockIDs(state.Conversation("call")), name)
		for _, b := range state.Blocks {
			if b.ID == "x" && name == "twice" {
				require.Equal(t, "again", *b.Content)
			}
		}
	}
}

// Subagents are restored in the order in which they appeared, also one that a
// lost one started.
// A call that had no end when its turn was interrupted stays so, whatever the agent wrote
// about it in the same moment.
func TestMergeCallWithoutEnd(t *testing.T) {
	t.Parallel()
	block := func(source event.Source, b event.Block) event.Event {
		b.Source, b.Status = source, event.StatusComplete
		return event.Event{Payload: event.BlockUpsert{Block: b}, Context: event.Context{Source: source}}
	}
	kept := block(event.SourceServer, event.Block{ID: "call", Type: event.BlockToolUse, ToolUseID: "call", ToolName: "shell", Execution: event.ExecutionError})
	native := sequence(text("", "1"),
		block("", event.Block{ID: "call", Type: event.BlockToolUse, ToolUseID: "call", ToolName: "shell", Execution: event.ExecutionSuccess}),
		block("", event.Block{ID: "call:result", Type: event.BlockToolResult, ToolUseID: "call", Output: json.RawMessage(`"one"`)}),
		text("", "2"))
	state, err := reducer.Fold(Merge(native, []ServerEntry{after("1", kept), after("call", notice("a"))}))
	require.NoError(t, err)
	require.Equal(t, []string{"1", "call", "a", "2"}, blockIDs(state.Blocks))
	require.Equal(t, event.ExecutionError, state.Blocks[1].Execution)
}

func TestMergeLostSubagents(t *testing.T) {
	t.Parallel()
	spawn := func(conversation, id string) event.Event {
		return event.Event{Payload: event.SubagentSpawned{ToolUseID: id}, Context: event.Context{ConversationID: conversation}}
	}
	own := []ServerEntry{
		{ID: "outer", Anchor: Anchor{AfterBlockID: "1"}, Event: spawn("", "outer")},
		{ID: "inner", Anchor: Anchor{ConversationID: "outer"}, Event: spawn("outer", "inner")},
	}
	state, err := reducer.Fold(Merge(sequence(text("", "1"), spawn("", "later")), own))
	require.NoError(t, err)
	var ids []string
	for _, sub := range state.Subagents {
		ids = append(ids, sub.ToolUseID)
	}
	require.Equal(t, []string{"outer", "inner", "later"}, ids)
}

func TestMergeStops(t *testing.T) {
	t.Parallel()
	own := []ServerEntry{after("", notice("a")), after("1", notice("b")), after("gone", notice("c"))}
	native := sequence(text("", "1"), text("", "2"))
	total := 0
	for range Merge(native, own) {
		total++
	}
	require.Equal(t, 6, total, "five events and one error")
	for stop := range total {
		n := 0
		for range Merge(native, own) {
			if n++; n > stop {
				break
			}
		}
		require.Equal(t, stop+1, n)
	}
}

// L5: whatever Sojourn adds at any moment, each entry anchored to the block that
// was last then, the restored conversation is the live one.
func TestMergeEqualsLive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var live, native []event.Event
		var own []ServerEntry
		last := map[string]string{}
		say := func(conv string, isOwn bool, n int) {
			id := fmt.Sprintf("b%d", n)
			if isOwn {
				ev := in(conv, notice(id))
				own = append(own, after(last[conv], ev))
				live = append(live, ev)
			} else {
				live, native = append(live, text(conv, id)), append(native, text(conv, id))
			}
			last[conv] = id
		}
		spawn := event.Event{Payload: event.SubagentSpawned{ToolUseID: "t1", Prompt: "p"}}
		live, native, last[event.Main] = append(live, spawn), append(native, spawn), event.SubagentBlockID("t1")
		for n := range 30 {
			say([]string{event.Main, "t1"}[rng.IntN(2)], rng.IntN(3) == 0, n)
			if rng.IntN(4) == 0 && len(native) > 0 { // and something is emitted again
				again := native[rng.IntN(len(native))]
				live, native = append(live, again), append(native, again)
			}
		}
		// Parsing yields one conversation after the other, not as they were
		// interleaved.
		slices.SortStableFunc(native, func(x, y event.Event) int {
			return strings.Compare(x.Context.Conversation(), y.Context.Conversation())
		})
		want, err := reducer.Fold(sequence(live...))
		require.NoError(t, err)
		got, err := reducer.Fold(Merge(sequence(native...), own))
		require.NoError(t, err)
		require.Equal(t, want, got, "seed %d", seed)
	}
}

func TestOwnTranscript(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	none, err := a.ServerEntries(t.Context(), "s1")
	require.NoError(t, err)
	require.Empty(t, none)
	first, second := after("1", notice("a")), after("a", notice("b"))
	require.NoError(t, a.AppendServerEntries(t.Context(), "s1", e, first))
	require.NoError(t, a.AppendServerEntries(t.Context(), "s1", e, first, second))
	require.NoError(t, a.AppendServerEntries(t.Context(), "s1", e, ServerEntry{Event: notice("c")}))
	require.NoError(t, a.AppendServerEntries(t.Context(), "s1", e, ServerEntry{Event: notice("c")}))
	own, err := another(t, a, nil).ServerEntries(t.Context(), "s1")
	require.NoError(t, err)
	require.Len(t, own, 3, "a repeated entry counts once")
	require.Equal(t, first, own[0])
	require.Equal(t, second, own[1])
	require.NotEmpty(t, own[2].ID)

	mustAppend(t, a, "s1", e, 0, []byte("1\n2\n"))
	parse := func(sources []adapters.Source) iter.Seq2[event.Event, error] {
		require.Len(t, sources, 1)
		return sequence(text("", "1"), text("", "2"))
	}
	state, err := reducer.Fold(a.Events(t.Context(), "s1", parse))
	require.NoError(t, err)
	require.Equal(t, []string{"c", "1", "a", "b", "2"}, blockIDs(state.Blocks))
}

func TestOwnWritersMeet(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		b := another(t, a, nil)
		wg.Go(func() {
			for n := range 5 {
				if err := b.AppendServerEntries(t.Context(), "s1", e, after("1", notice(fmt.Sprintf("%d-%d", i, n)))); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	own, err := a.ServerEntries(t.Context(), "s1")
	require.NoError(t, err)
	require.Len(t, own, 30)
	raw := mustRead(t, a, "s1", ServerTranscript)
	require.Equal(t, 30, strings.Count(string(raw), "\n"), "nothing doubled")
}

func TestOwnKeepsTheGoodLines(t *testing.T) {
	t.Parallel()
	good, err := encodeServer([]ServerEntry{after("1", notice("a")), after("1", notice("b"))})
	require.NoError(t, err)
	own, err := decodeServer(strings.NewReader(strings.Replace(string(good), "\n", "\n{broken\n\n", 1)))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "line 2")
	require.Len(t, own, 2)
}

// placed returns the entry with the place of one of the agent's blocks.
func placed(anchor, block string) ServerEntry {
	return ServerEntry{ID: "p-" + block, Anchor: Anchor{AfterBlockID: anchor}, Event: event.Event{Payload: event.BlockPlaced{BlockID: block}}}
}

// TestMergePlacesOfTheAgentsBlocks: what the agent has too early waits for its place, with
// the entries that follow it, and not longer than until the agent is idle.
func TestMergePlacesOfTheAgentsBlocks(t *testing.T) {
	t.Parallel()
	idle := event.Event{Payload: event.SessionIdle{}}
	change := func(id, content string) event.Event {
		return event.Event{Payload: event.BlockUpsert{Block: event.Block{ID: id, Content: new(content)}}}
	}
	for _, c := range []struct {
		name   string
		native []event.Event
		own    []ServerEntry
		want   []string
	}{
		{"behind its anchor", []event.Event{text("", "1"), text("", "3"), text("", "2")}, []ServerEntry{placed("2", "3")}, []string{"1", "2", "3"}},
		{"there already", []event.Event{text("", "1"), text("", "2"), text("", "3")}, []ServerEntry{placed("2", "3")}, []string{"1", "2", "3"}},
		{"one after the other", []event.Event{text("", "3"), text("", "2"), text("", "1"), text("", "4")}, []ServerEntry{placed("1", "2"), placed("2", "3")}, []string{"1", "2", "3", "4"}},
		{"with what follows it", []event.Event{text("", "2"), text("", "1")}, []ServerEntry{placed("1", "2"), after("2", notice("a")), after("1", notice("b"))}, []string{"1", "2", "a", "b"}},
		{"its anchor never comes", []event.Event{text("", "2"), idle, text("", "3")}, []ServerEntry{placed("gone", "2")}, []string{"2", "3"}},
		{"at the end", []event.Event{text("", "2")}, []ServerEntry{placed("gone", "2")}, []string{"2"}},
		{"a later turn's", []event.Event{text("", "1"), idle, text("", "3"), text("", "2")}, []ServerEntry{placed("2", "3")}, []string{"1", "2", "3"}},
		{"behind an own one", []event.Event{text("", "2"), text("", "1")}, []ServerEntry{after("1", notice("a")), placed("a", "2")}, []string{"1", "a", "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var state reducer.State
			for ev, err := range Merge(sequence(c.native...), c.own) {
				if err == nil {
					state = reducer.Reduce(state, ev)
				} else {
					require.ErrorIs(t, err, ErrAnchorLost)
				}
			}
			require.Equal(t, c.want, blockIDs(state.Blocks))
		})
	}
	state, err := reducer.Fold(Merge(sequence(text("", "2"), change("2", "more"), text("", "1")), []ServerEntry{placed("1", "2")}))
	require.NoError(t, err)
	require.Equal(t, "more", *state.Blocks[1].Content, "a change waits with its block")
}

// TestMergePlacesOfSubagents: a subagent's conversation waits with its start.
func TestMergePlacesOfSubagents(t *testing.T) {
	t.Parallel()
	start := func(id string) event.Event {
		return event.Event{Payload: event.SubagentSpawned{ToolUseID: id, AgentID: "agent-" + id, Prompt: "do"}}
	}
	nested := in("b", start("c"))
	native := sequence(start("b"), text("b", "b2"), text("agent-b", "b1"), nested, text("c", "c1"), start("a"), text("a", "a1"))
	block := event.SubagentBlockID
	own := []ServerEntry{placed(block("a"), block("b")), {ID: "p", Anchor: Anchor{"b", "b1"}, Event: in("b", event.Event{Payload: event.BlockPlaced{BlockID: "b2"}})}}
	state, err := reducer.Fold(Merge(native, own))
	require.NoError(t, err)
	require.Equal(t, []string{block("a"), block("b")}, blockIDs(state.Blocks))
	require.Equal(t, []string{"b1", "b2", block("c")}, blockIDs(state.Conversation("b")))
	require.Equal(t, []string{"c1"}, blockIDs(state.Conversation("c")))
}
