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

// saga makes a random conversation with subagents, as transcripts have it, and
// returns where its turns begin.
func saga(random *rand.Rand, n int) (out []event.Event, turns []int) {
	open := []string{event.Main}
	in := func(conversation string, p event.Payload) {
		out = append(out, event.Event{Payload: p, Context: event.Context{ConversationID: conversation, Source: event.SourceRunner}})
	}
	for i := range n {
		conversation := open[random.IntN(len(open))]
		switch random.IntN(6) {
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
			// A turn begins: its subagents are its own.
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

func each(events []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// What a turn is compared with is the same, whether all that was saved is
// folded, or only what the turn needs.
func TestPartsOfSavedAreEnough(t *testing.T) {
	t.Parallel()
	at, asked := time.Unix(1, 0), []string{"u3"}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		all, turns := saga(random, 60)
		from := turns[random.IntN(len(turns))]
		to := from + random.IntN(len(all)-from)
		saved := append([]event.Event{}, all...)
		for range random.IntN(4) { // what the agent did not write down
			drop := random.IntN(len(saved))
			if _, ok := saved[drop].Payload.(event.BlockUpsert); ok {
				saved = slices.Delete(saved, drop, drop+1)
			}
		}
		saved = append(saved, event.Event{Payload: event.SessionIdle{}})
		live := foldAll(all[from:to]...)
		want, err := json.Marshal(Difference(live, foldAll(saved...), Options{At: at, Asked: asked}))
		require.NoError(t, err)
		got, err := json.Marshal(Difference(live, Persisted(each(saved), asked, live), Options{At: at, Asked: asked}))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "seed %d", seed)
	}
}

// TestBetweenIsForgotten: what lies between streamed blocks is not compared, and takes
// no room from what follows the last of them.
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
