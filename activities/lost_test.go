package activities

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
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
	kept := unsaved(promptIDs(nil, "u2"), state, disk, time.Unix(1, 0))
	require.Len(t, kept, 2)
	for _, ev := range kept {
		live.add(event.SourceServer, ev.Payload)
	}
	failed := block("failed", event.BlockError, event.StatusComplete, "")
	failed.Source = event.SourceServer
	live.add(event.SourceServer, event.BlockUpsert{Block: failed})

	c := collectorFrom("")
	for _, ev := range live.live {
		c.hear(ev)
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
	for ev, err := range archive.Merge(native, c.entries()) {
		require.NoError(t, err)
		merged = append(merged, ev)
	}
	differences, err := parity.Compare(foldAll(live.live...), foldAll(merged...), parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, event.StatusComplete, foldAll(merged...).Blocks[2].Status, "a message is no lost block")
	require.Empty(t, unsaved(promptIDs(nil, "u3"), foldAll(live.live...), foldAll(append(onDisk, later)...), time.Unix(1, 0)), "once")
}

// TestUnheardMessageIsKept: an agent that dies before it could be asked, in the
// middle of its start, leaves the message in the conversation all the same, and
// one that was asked leaves it once.
func TestUnheardMessageIsKept(t *testing.T) {
	t.Parallel()
	attempt := &turn{agent: &agent{}, in: RunTurnInput{Message: session.Message{ID: "m1", Text: "asked in vain"}}}
	prompt := event.Event{Payload: event.BlockUpsert{Block: block("m1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}}
	native := prompt
	native.Payload = event.BlockUpsert{Block: block("n1", event.BlockUserMessage, event.StatusComplete, "asked in vain")}

	kept := attempt.unheard(foldAll(), foldAll(), time.Unix(1, 0))
	require.Len(t, kept, 1)
	b := foldAll(kept...).Blocks[0]
	require.Equal(t, "m1", b.ID)
	require.Equal(t, "asked in vain", *b.Content)
	require.Equal(t, event.SourceServer, b.Source)
	require.Empty(t, attempt.unheard(foldAll(kept...), foldAll(), time.Unix(1, 0)), "once")
	require.Empty(t, attempt.unheard(foldAll(native), foldAll(), time.Unix(1, 0)), "it was said, under an id of the agent's")
	require.Empty(t, attempt.unheard(foldAll(), foldAll(prompt), time.Unix(1, 0)), "it is on disk, and is told")
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
		"told to go on":           {[]event.Event{prompt("m2", "asked")}, []event.Event{prompt("m2", "asked"), prompt(resumedID("m2", 2), goOn), answer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := prompt("m1", "asked before")
			state, disk := foldAll(c.live...), foldAll(append([]event.Event{before}, c.disk...)...)
			after := foldAll(append(slices.Clone(c.live), unsaved(promptIDs(nil, "m2"), state, disk, time.Unix(1, 0))...)...)
			differences, err := parity.Compare(after, foldAll(c.disk...), parity.Rules{})
			require.NoError(t, err)
			require.Empty(t, differences)
			require.Empty(t, unsaved(promptIDs(nil, "m2"), after, disk, time.Unix(1, 0)), "once")
			require.True(t, written(promptIDs(nil, "m2"), disk))
		})
	}
}
