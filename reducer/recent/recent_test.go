package recent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/nasty"
)

// plan makes events of a conversation with subagents: blocks begin, grow and end, now and
// then long after, are lost and said again. None is dropped.
type plan struct {
	*rand.Rand
	convs  []string
	blocks map[string][]string
	lost   map[string]bool
	made   int
}

func (p *plan) next() event.Event {
	conv := p.convs[p.IntN(len(p.convs))]
	known := p.blocks[conv]
	if len(known) == 0 || p.IntN(3) == 0 {
		return p.begin(conv)
	}
	id := known[max(0, len(known)-1-p.IntN(4)*p.IntN(len(known)))]
	switch p.IntN(4) {
	case 0:
		return in(conv, event.BlockDelta{BlockID: id, Delta: "more "})
	case 1:
		return in(conv, event.BlockUpsert{Block: event.Block{ID: id, Model: fmt.Sprint("m", p.IntN(9))}})
	case 2:
		if p.lost[id] = !p.lost[id]; p.lost[id] {
			return in(conv, event.BlockUpsert{Block: event.Block{ID: id, Status: event.StatusError, Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")}}})
		}
		p.blocks[conv] = append(slices.DeleteFunc(known, func(k string) bool { return k == id }), id)
		return text(conv, id, "again")
	}
	return in(conv, event.SessionIdle{})
}

func (p *plan) begin(conv string) event.Event {
	p.made++
	id := fmt.Sprint("b", p.made)
	if p.IntN(8) == 0 {
		p.convs = append(p.convs, id)
		return in(conv, event.SubagentSpawned{ToolUseID: id, AgentID: "a" + id, Prompt: "do it"})
	}
	p.blocks[conv] = append(p.blocks[conv], id)
	return text(conv, id, "begins")
}

func text(conv, id, content string) event.Event {
	return in(conv, event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusPending, Content: new(content)}})
}

func in(conv string, p event.Payload) event.Event {
	return event.Event{Context: event.Context{ConversationID: conv}, Payload: p}
}

// TestNewest: what is kept is the end of the whole conversation, as it is.
func TestNewest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		p := &plan{Rand: rand.New(rand.NewPCG(seed, 0)), convs: []string{event.Main}, blocks: map[string][]string{}, lost: map[string]bool{}}
		limit := 1 + p.IntN(12)
		kept, whole := New(limit), reducer.NewBuilder(reducer.State{})
		for n := range 400 {
			ev := p.next()
			kept.Add(ev)
			whole.Add(ev)
			if n%7 == 0 {
				requireEnd(t, whole.State(), kept.State(), limit, seed)
			}
		}
		require.LessOrEqual(t, len(kept.made.State().Blocks), 2*limit)
	}
}

func requireEnd(t *testing.T, whole, kept reducer.State, limit int, seed uint64) {
	t.Helper()
	requireLast(t, whole.Blocks, kept.Blocks, limit, seed)
	for _, sub := range kept.Subagents {
		all, is := whole.Subagent(sub.ToolUseID, "")
		require.True(t, is, "seed %d", seed)
		requireLast(t, all.Blocks, sub.Blocks, limit, seed)
		all.Blocks, sub.Blocks = nil, nil
		require.Equal(t, all, sub, "seed %d", seed)
	}
	for _, b := range kept.Blocks {
		if b.Type == event.BlockSubagent {
			_, is := kept.Subagent(b.ToolUseID, "")
			require.True(t, is, "seed %d: a subagent that is shown has its thread", seed)
		}
	}
}

func requireLast(t *testing.T, all, kept []event.Block, limit int, seed uint64) {
	t.Helper()
	require.Len(t, kept, min(limit, len(all)), "seed %d", seed)
	if len(kept) > 0 {
		require.Equal(t, all[len(all)-len(kept):], kept, "seed %d", seed)
	}
}

// TestAnyEvents: whatever comes, there are at most so many, and without a limit it is the
// whole fold.
func TestAnyEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		events := nasty.New(seed).Events(120)
		kept, all, whole := New(2), New(0), reducer.NewBuilder(reducer.State{})
		for _, ev := range events {
			kept.Add(ev)
			all.Add(ev)
			whole.Add(ev)
			require.LessOrEqual(t, len(kept.State().Blocks), 2)
		}
		require.Equal(t, whole.State(), all.State())
	}
}
