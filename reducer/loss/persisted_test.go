package loss

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// saga returns a random conversation with subagents, as transcripts have it, and where its
// turns start.
func saga(random *rand.Rand, n int) (out []event.Event, turns []int) {
	open := []string{event.Main}
	in := func(conversation string, p event.Payload) {
		out = append(out, event.Event{Payload: p, Context: event.Context{ConversationID: conversation, Source: event.SourceRunner}})
	}
	for i := range n {
		conversation := open[random.IntN(len(open))]
		switch random.IntN(7) {
		case 6:
			in(conversation, event.BlockUpsert{Block: event.Block{ID: fmt.Sprint("c", i), Type: event.BlockToolUse, Status: event.StatusComplete}})
		case 0:
			id := fmt.Sprint("t", i)
			in(conversation, event.SubagentSpawned{ToolUseID: id, AgentID: "agent-" + id})
			open = append(open, id)
		case 1:
			if len(open) > 1 {
				last := open[len(open)-1]
				open = open[:len(open)-1]
				in(event.Main, event.SubagentCompleted{ToolUseID: last, Status: event.SubagentCompletedOK})
			}
		case 2:
			// A turn starts, and its subagents with it.
			for _, id := range slices.Backward(open[1:]) {
				in(event.Main, event.SubagentCompleted{ToolUseID: id, Status: event.SubagentCompletedOK})
			}
			open = open[:1]
			turns = append(turns, len(out))
			in(event.Main, event.BlockUpsert{Block: block(fmt.Sprint("u", i), event.BlockUserMessage, event.StatusComplete, "asked")})
		default:
			in(conversation, event.BlockUpsert{Block: block(fmt.Sprint("b", i), event.BlockAssistantText, event.StatusComplete, fmt.Sprint("said ", i))})
		}
	}
	return out, append(turns, 0)
}

// closing returns what a parser emits at the end of its input: the calls without a result
// are ended, in whatever turn they are.
func closing(read []event.Event) (out []event.Event) {
	for _, ev := range read {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Type == event.BlockToolUse {
			ev.Payload = event.BlockUpsert{Block: event.Block{ID: p.Block.ID, Type: p.Block.Type, Execution: event.ExecutionError}}
			out = append(out, ev)
		}
	}
	return append(out, event.Event{Payload: event.SessionIdle{}})
}

func each(events []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// The comparison of a turn is the same with everything that was persisted as with only what
// the turn needs.
func TestPartsOfSavedAreEnough(t *testing.T) {
	t.Parallel()
	at, asked := time.Unix(1, 0), []string{"u3"}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		all, turns := saga(random, 60)
		from := turns[random.IntN(len(turns))]
		to := from + random.IntN(len(all)-from)
		saved := append([]event.Event{}, all...)
		for range random.IntN(4) { // what the agent did not persist
			if drop := RefOf(saved[random.IntN(len(saved))]); drop != (Ref{}) {
				saved = slices.DeleteFunc(saved, func(ev event.Event) bool { return RefOf(ev) == drop })
			}
		}
		saved = append(saved, closing(saved)...)
		live := foldAll(all[from:to]...)
		want, err := json.Marshal(Difference(live, foldAll(saved...), Options{At: at, Asked: asked}))
		require.NoError(t, err)
		got, err := json.Marshal(Difference(live, Persisted(each(saved), asked, live), Options{At: at, Asked: asked}))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "seed %d", seed)
	}
}

// TestBetweenIsForgotten: what is between streamed blocks is not compared, and
// takes no memory from what follows the last of them.
func TestBetweenIsForgotten(t *testing.T) {
	t.Parallel()
	said := func(id, content string) event.Event {
		return event.Event{Payload: text(id, event.StatusComplete, content)}
	}
	streamed := foldAll(said("first", "said"), said("last", "said"))
	saved := each([]event.Event{said("first", "said"), said("between", strings.Repeat("x", maxBehind-4096)), said("last", "said"), said("behind", strings.Repeat("y", 8192))})
	var ids []string
	for _, b := range Persisted(saved, nil, streamed).Blocks {
		ids = append(ids, b.ID)
	}
	require.Equal(t, []string{"first", "last", "behind"}, ids)
}
