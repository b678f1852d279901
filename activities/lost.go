package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/stream"
)

// markLost marks what the agent had said in this turn and took with it when it
// died: an agent writes its transcript some time after it speaks. Without the
// marks the live conversation would hold blocks that no restore gives back.
func (t *turn) markLost(ctx context.Context, d runner.Delivery) error {
	pos := stream.Position{Epoch: t.in.Sandbox.Epoch, Offset: d.Offset, Index: indexLost}
	if pos.Compare(t.had) <= 0 {
		return nil
	}
	if err := t.out.Flush(ctx); err != nil {
		return err
	}
	live := reducer.NewBuilder(reducer.State{})
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, t.since(), stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			// The turn is older than the stream's memory: nobody can tell any more.
			t.host.o.Log.Warn("lost blocks are past the stream's retention", "session", t.in.Agent.SessionID)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for lost blocks: %w", err)
		}
		live.Add(ev)
	}
	said := live.State()
	restored, err := t.agent.onDisk(ctx, t.in.Message.ID, said)
	if err != nil {
		return fmt.Errorf("look for lost blocks: %w", err)
	}
	events := unsaved(t.in.Message.ID, said, restored, d.Record.TS)
	// The last block in order may be among them: the stream is asked again.
	t.owned = t.owned || len(events) > 0
	return t.out.Add(ctx, events, pos)
}

// unsaved are the events that make the live side say what the transcripts do,
// of an execution whose agent is gone, and of what came before it.
func unsaved(messageID string, live, restored reducer.State, at time.Time) []event.Event {
	live, written := writtenPrompts(messageID, live, restored, at)
	return slices.Concat(written, keepPrompts(live, restored, at), parity.Unsaved(live, restored, at))
}

// writtenPrompts tells what the agent was asked and wrote down, and was gone
// before it said so, and gives the conversation with it. Agents that name their
// messages themselves are not known to have done that.
func writtenPrompts(messageID string, live, restored reducer.State, at time.Time) (reducer.State, []event.Event) {
	ids := promptIDs(messageID)
	fold := reducer.NewBuilder(live)
	var told []event.Event
	for _, b := range restored.Blocks {
		if b.Type != event.BlockUserMessage || !slices.Contains(ids, b.ID) || stands(b, live) {
			continue
		}
		ev := event.Event{
			Payload: event.BlockUpsert{Block: b},
			Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner, Timestamp: at},
		}
		fold.Add(ev)
		told = append(told, ev)
	}
	return fold.State(), told
}

// stands says whether a block is in the live conversation, and not as lost.
func stands(b event.Block, live reducer.State) bool {
	return slices.ContainsFunc(live.Blocks, func(l event.Block) bool { return l.ID == b.ID && !isLost(l) })
}

// keepPrompts makes Sojourn's own what the agent was asked and did not write
// down before it died: what a person said is never lost. A message that was
// marked as lost was asked again, or was going to be: it is kept if the agent
// never said it again.
func keepPrompts(live, restored reducer.State, at time.Time) []event.Event {
	var kept []event.Event
	var unasked *event.Block
	for _, b := range live.Blocks {
		switch {
		case b.Type != event.BlockUserMessage || b.Source == event.SourceServer:
		case isLost(b):
			unasked = &b
		case !heard(b, restored):
			kept, unasked = append(kept, keptPrompt(b, at)), nil
		default:
			unasked = nil
		}
	}
	if unasked != nil {
		kept = append(kept, keptPrompt(*unasked, at))
	}
	return kept
}

func keptPrompt(b event.Block, at time.Time) event.Event {
	b.Source, b.Status = event.SourceServer, event.StatusComplete
	b.Metadata = maps.Clone(b.Metadata)
	delete(b.Metadata, "lost")
	ev := own(event.BlockUpsert{Block: b})
	ev.Context.Timestamp = at
	return ev
}

// markedLost says that a block's words are on no disk.
func markedLost(b event.Block, at time.Time) event.Event {
	ev := own(event.BlockUpsert{Block: event.Block{
		ID: b.ID, Type: b.Type, Status: event.StatusError,
		Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
	}})
	ev.Context.Timestamp = at
	return ev
}

// isLost says whether an upsert only marks an agent's block as lost.
func isLost(b event.Block) bool { return string(b.Metadata["lost"]) == "true" }
