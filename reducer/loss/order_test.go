package loss

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func TestOrderAnchor(t *testing.T) {
	t.Parallel()
	var none Order
	require.Empty(t, none.anchor(0))
	o := Order{permanent("before")}
	o.place(placedBlock{id: "text", filled: true})
	require.Equal(t, "before", o.anchor(len(o)), "what is pending may yet vanish")
	o.place(permanent("tool"))
	require.Equal(t, "tool", o.anchor(len(o)))
	require.Equal(t, "before", o.anchor(2), "as of the text")
	o.place(permanent("text"))
	require.Equal(t, "text", o.anchor(2), "the text has become permanent since")
	require.Equal(t, "tool", o.anchor(3), "a block keeps the place that it was created at")
	o.place(placedBlock{id: "tool"})
	require.Equal(t, "tool", o.anchor(3), "an update takes nothing back")
}

func TestOrderPrune(t *testing.T) {
	t.Parallel()
	o := Order{permanent("a"), {id: "b"}, permanent("c"), {id: "d"}}
	o.Prune()
	require.Equal(t, Order{{id: "b"}, permanent("c"), {id: "d"}}, o)
}

// A lost block is no anchor, even if it was complete; neither is a text until it
// has content.
func TestOrderHears(t *testing.T) {
	t.Parallel()
	o := Order{permanent("a")}
	last := func() string { return o.anchor(len(o)) }
	o.Add(text("b", event.StatusComplete, "said"))
	require.Equal(t, "b", last())
	o.Add(event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText, Status: event.StatusError, Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")}}})
	o.Add(text("b", "", "said"))
	require.Equal(t, "a", last())
	o.place(permanent("own"))
	o.Add(text("b", event.StatusComplete, "said anew"))
	require.Equal(t, "b", last())
	require.Equal(t, "own", o.anchor(o.index("b")), "it is last, as in the conversation")
	o = Order{permanent("a")}
	o.Add(text("c", event.StatusPending, ""))
	o.Add(text("d", event.StatusComplete, ""))
	o.Add(event.SessionIdle{})
	require.Equal(t, "a", last(), "both are dropped when the agent is idle")
	o.Add(event.BlockDelta{BlockID: "c", Delta: "text"})
	require.Equal(t, "c", last())
	o.Add(event.SubagentSpawned{ToolUseID: "t"})
	require.Equal(t, event.SubagentBlockID("t"), last())
}

// naiveOrder is Order without pruning.
type naiveOrder struct {
	ids       []string
	permanent map[string]bool
}

func (n *naiveOrder) place(id string, permanent bool) {
	if !slices.Contains(n.ids, id) {
		n.ids = append(n.ids, id)
	}
	n.permanent[id] = n.permanent[id] || permanent
}

func (n *naiveOrder) anchor() string {
	for _, id := range slices.Backward(n.ids) {
		if n.permanent[id] {
			return id
		}
	}
	return ""
}

// The pruned order has the same anchor at every point as an unpruned one, and does not grow
// with completed blocks.
func TestOrderAgainstNaive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		order := Order{permanent("start")}
		naive := naiveOrder{[]string{"start"}, map[string]bool{"start": true}}
		open, made := []string(nil), 0
		for range 200 {
			id, permanent := "", r.IntN(2) == 0
			if len(open) > 0 && r.IntN(2) == 0 {
				at := r.IntN(len(open))
				id, permanent = open[at], true
				open = slices.Delete(open, at, at+1)
			} else {
				made++
				if id = fmt.Sprint("b", made); !permanent {
					open = append(open, id)
				}
			}
			order.place(placedBlock{id: id, filled: true, complete: permanent})
			naive.place(id, permanent)
			if r.IntN(3) == 0 {
				order.Prune()
				require.LessOrEqual(t, len(order), len(open)+1)
			}
			require.Equal(t, naive.anchor(), order.anchor(len(order)), "seed %d", seed)
		}
	}
}
