package turn

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/test/parity"
)

func foldAll(events ...event.Event) reducer.State {
	b := reducer.NewBuilder(reducer.State{})
	for _, ev := range events {
		b.Add(ev)
	}
	return b.State()
}

func block(id string, bt event.BlockType, status event.BlockStatus, content string) event.Block {
	return event.Block{ID: id, Type: bt, Status: status, Content: &content}
}

// TestUnheardMessageIsKept: an agent that dies during its start, before it could be
// prompted, leaves the message in the conversation, and one that was prompted leaves it
// once.
func TestUnheardMessageIsKept(t *testing.T) {
	t.Parallel()
	message := Message{ID: "m1", Text: "asked in vain", BlockIDs: ids("m1")}
	prompt := event.Event{Payload: event.BlockUpsert{Block: block("m1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}}
	native := prompt
	native.Payload = event.BlockUpsert{Block: block("n1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}

	exited := Ending{Outcome: Failed, Exited: true}
	streamed := func(events ...event.Event) *History {
		h := NewHistory(Scope{ExecutionID: "x1", MessageID: "m1", BlockIDs: ids("m1")})
		started := event.Event{Payload: event.QueryStarted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}}}
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
	said := foldAll(append([]event.Event{native}, message.Lost(exited, streamed(native), foldAll(), time.Unix(1, 0))...)...)
	require.Len(t, said.Blocks, 1, "once")
	require.Equal(t, "m1", said.Blocks[0].ID, "it was streamed under an id of the agent's, which the next message may have")
	require.Equal(t, "asked in vain", *said.Blocks[0].Content)
	onDisk := foldAll(message.Lost(exited, streamed(), foldAll(prompt), time.Unix(1, 0))...)
	require.NotEqual(t, event.SourceServer, onDisk.Blocks[0].Source, "it is on disk, and is streamed")
}

// TestEarlierMessagesAreKept: a message whose turn ended while the archive was behind is
// kept under its own id when the host is lost, and not under that of the one that runs.
func TestEarlierMessagesAreKept(t *testing.T) {
	t.Parallel()
	earlier := []Message{{ID: "m1", Text: "asked", BlockIDs: ids("m1")}, {ID: "m2", Text: "asked too", BlockIDs: ids("m2")}}
	prompt := func(id, text string) event.Payload {
		return event.BlockUpsert{Block: block(id, event.BlockUserMessage, event.StatusComplete, text)}
	}
	started := func(message string) event.Payload {
		return event.QueryStarted{Query: event.Query{ExecutionID: "x-" + message, MessageIDs: []string{message}}}
	}
	for name, c := range map[string]struct{ live, disk []event.Payload }{
		"the stream deleted":            {},
		"behind the first":              {live: []event.Payload{started("m2"), prompt("m2", "asked too")}},
		"under ids of the house":        {live: []event.Payload{started("m1"), prompt("m1", "asked"), started("m2"), prompt("m2", "asked too")}},
		"under ids of the agent":        {live: []event.Payload{started("m1"), prompt("n:1", "asked"), started("m2"), prompt("n:2", "asked too")}},
		"one deleted, and one archived": {disk: []event.Payload{prompt("m1", "asked")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var disk []event.Event
			for _, p := range c.disk {
				disk = append(disk, event.Event{Payload: p})
			}
			h := NewHistory(Scope{ExecutionID: "x-m3", MessageID: "m3", BlockIDs: ids("m3"), Earlier: earlier})
			var live []event.Event
			add := func(events ...event.Event) {
				for _, ev := range events {
					ev.Context.Seq = uint64(len(live) + 1)
					live = append(live, ev)
					h.Add(ev)
				}
			}
			for _, p := range c.live {
				add(event.Event{Payload: p})
			}
			persisted := foldAll(disk...)
			options := loss.Options{At: time.Unix(1, 0), Asked: ids("m3"), AskedAgain: ids("m3")}
			add(h.Difference(persisted, options)...)
			require.Empty(t, h.Difference(persisted, options), "once")
			var all []string
			for _, b := range append(foldAll(live...).Blocks, persisted.Blocks...) {
				if *b.Content != "" {
					all = append(all, b.ID+": "+*b.Content)
				}
			}
			require.ElementsMatch(t, []string{"m1: asked", "m2: asked too"}, all)
		})
	}
}

// TestWrittenPromptIsTold: an agent that was killed right after persisting its prompt had
// no time to stream it. Subscribers get the message once, and it counts as received.
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
		"told to go on":           {[]event.Event{prompt("m2", "asked")}, []event.Event{prompt("m2", "asked"), prompt(resumeID("m2", 2), ContinueText), answer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := prompt("m1", "asked before")
			state, disk := foldAll(c.live...), foldAll(append([]event.Event{before}, c.disk...)...)
			after := foldAll(append(slices.Clone(c.live), loss.Difference(state, disk, loss.Options{At: time.Unix(1, 0), Asked: ids("m2")})...)...)
			differences, err := parity.Compare(after, foldAll(c.disk...), parity.Rules{})
			require.NoError(t, err)
			require.Empty(t, differences)
			require.Empty(t, loss.Difference(after, disk, loss.Options{At: time.Unix(1, 0), Asked: ids("m2")}), "once")
			require.True(t, loss.HasPrompt(ids("m2"), disk))
		})
	}
}

// ids returns the ids of a message whose block has the message's id for the agent.
func ids(messageID string) []string {
	return PromptIDs(messageID, func(id string) string { return id })
}

// An agent whose subagents ended with its host would wait for them as long as it may.
func TestAResumedAgentIsToldOfItsSubagents(t *testing.T) {
	t.Parallel()
	told := (&Resume{Times: 1, PromptPersisted: true}).Prompt(Message{ID: "m1", Text: "do"})
	require.Contains(t, told.Text, "subagents too, has ended and is not to be waited for")
}
