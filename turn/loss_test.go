package turn

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

func foldAll(events ...event.Event) reducer.State {
	b := reducer.NewBuilder(reducer.State{})
	for _, ev := range events {
		b.Add(ev)
	}
	return b.State()
}

// TestUnwrittenPromptIsKept: an agent that dies before it has written down what
// it was asked takes no word of its user with it, and what comes later comes
// after it in the archive too.
func TestUnwrittenPromptIsKept(t *testing.T) {
	t.Parallel()
	var live story
	asked := live.add(event.SourceRunner, event.BlockUpsert{Block: block("u1", event.BlockUserMessage, event.StatusComplete, "asked before")})
	said := live.add(event.SourceRunner, event.BlockUpsert{Block: block("a1", event.BlockAssistantText, event.StatusComplete, "said before")})
	onDisk := []event.Event{asked, said}
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("u2", event.BlockUserMessage, event.StatusComplete, "not written")})
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("a2", event.BlockAssistantText, event.StatusPending, "nor this")})

	state, disk := foldAll(live.live...), foldAll(onDisk...)
	kept := Reconcile(ids("u2"), state, disk, time.Unix(1, 0))
	require.Len(t, kept, 2)
	for _, ev := range kept {
		live.add(event.SourceServer, ev.Payload)
	}
	failed := block("failed", event.BlockError, event.StatusComplete, "")
	failed.Source = event.SourceServer
	live.add(event.SourceServer, event.BlockUpsert{Block: failed})

	c := NewServerBlocks("")
	for _, ev := range live.live {
		c.Add(ev)
	}
	// The agent goes on in another process, and writes behind what it had.
	later := live.add(event.SourceRunner, event.BlockUpsert{Block: block("u3", event.BlockUserMessage, event.StatusComplete, "asked later")})
	native := func(yield func(event.Event, error) bool) {
		for _, ev := range append(onDisk, later) {
			if !yield(ev, nil) {
				return
			}
		}
	}
	var merged []event.Event
	for ev, err := range archive.Merge(native, entriesOf(c)) {
		require.NoError(t, err)
		merged = append(merged, ev)
	}
	differences, err := parity.Compare(foldAll(live.live...), foldAll(merged...), parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, event.StatusComplete, foldAll(merged...).Blocks[2].Status, "a message is no lost block")
	require.Empty(t, Reconcile(ids("u3"), foldAll(live.live...), foldAll(append(onDisk, later)...), time.Unix(1, 0)), "once")
}

// TestUnheardMessageIsKept: an agent that dies before it could be asked, in the
// middle of its start, leaves the message in the conversation all the same, and
// one that was asked leaves it once.
func TestUnheardMessageIsKept(t *testing.T) {
	t.Parallel()
	message := Message{ID: "m1", Text: "asked in vain", BlockIDs: ids("m1")}
	prompt := event.Event{Payload: event.BlockUpsert{Block: block("m1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}}
	native := prompt
	native.Payload = event.BlockUpsert{Block: block("n1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}

	exited := Ending{Outcome: Failed, Exited: true}
	streamed := func(events ...event.Event) *History {
		h := NewHistory(Scope{ExecutionID: "x1", MessageID: "m1", BlockIDs: ids("m1")})
		started := event.Event{Payload: event.QueryStarted{Query: event.Query{ExecutionID: "x1"}}}
		for i, ev := range append([]event.Event{started}, events...) {
			ev.Context.Seq = uint64(i + 1)
			h.Add(ev)
		}
		return h
	}
	kept := message.Lost(exited, streamed(), foldAll(), time.Unix(1, 0))
	require.Len(t, kept, 1)
	b := foldAll(kept...).Blocks[0]
	require.Equal(t, "m1", b.ID)
	require.Equal(t, "asked in vain", *b.Content)
	require.Equal(t, event.SourceServer, b.Source)
	require.Empty(t, message.Lost(exited, streamed(kept...), foldAll(), time.Unix(1, 0)), "once")
	said := foldAll(message.Lost(exited, streamed(native), foldAll(), time.Unix(1, 0))...)
	require.Equal(t, "n1", said.Blocks[0].ID, "it was streamed, under an id of the agent's")
	require.Len(t, said.Blocks, 1)
	onDisk := foldAll(message.Lost(exited, streamed(), foldAll(prompt), time.Unix(1, 0))...)
	require.NotEqual(t, event.SourceServer, onDisk.Blocks[0].Source, "it is on disk, and is told")
}

// TestWrittenPromptIsTold: an agent that was killed right behind writing down
// what it was asked had no time to say so. Whoever watches is told, the message
// once, and it counts as heard.
func TestWrittenPromptIsTold(t *testing.T) {
	t.Parallel()
	prompt := func(id, text string) event.Event {
		return event.Event{Payload: event.BlockUpsert{Block: block(id, event.BlockUserMessage, event.StatusComplete, text)}}
	}
	answer := event.Event{Payload: event.BlockUpsert{Block: block("a2", event.BlockAssistantText, event.StatusComplete, "begun")}}
	lost := block("m2", event.BlockUserMessage, event.StatusError, "")
	lost.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
	for name, c := range map[string]struct{ live, disk []event.Event }{
		"nothing said":            {nil, []event.Event{prompt("m2", "asked")}},
		"and begun":               {nil, []event.Event{prompt("m2", "asked"), answer}},
		"lost, on disk after all": {[]event.Event{prompt("m2", "asked"), {Payload: event.BlockUpsert{Block: lost}}}, []event.Event{prompt("m2", "asked")}},
		"told to go on":           {[]event.Event{prompt("m2", "asked")}, []event.Event{prompt("m2", "asked"), prompt(resumeID("m2", 2), continueText), answer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := prompt("m1", "asked before")
			state, disk := foldAll(c.live...), foldAll(append([]event.Event{before}, c.disk...)...)
			after := foldAll(append(slices.Clone(c.live), Reconcile(ids("m2"), state, disk, time.Unix(1, 0))...)...)
			differences, err := parity.Compare(after, foldAll(c.disk...), parity.Rules{})
			require.NoError(t, err)
			require.Empty(t, differences)
			require.Empty(t, Reconcile(ids("m2"), after, disk, time.Unix(1, 0)), "once")
			require.True(t, hasPrompt(ids("m2"), disk))
		})
	}
}

// ids are those of a message whose block the agent names as it is.
func ids(messageID string) []string {
	return PromptIDs(messageID, func(id string) string { return id })
}
