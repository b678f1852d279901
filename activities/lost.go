package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/stream"
)

// markLost marks and keeps what the agent had said in this turn and took with it
// when it died: an agent writes its transcript some time after it speaks.
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
	restored, err := t.agent.onDisk(ctx, t.promptIDs(), said)
	if err != nil {
		return fmt.Errorf("look for lost blocks: %w", err)
	}
	events := append(t.unheard(said, restored, d.Record.TS), unsaved(t.promptIDs(), said, restored, d.Record.TS)...)
	// The last block in order may be among them: the stream is asked again.
	t.owned = t.owned || len(events) > 0
	return t.out.Add(ctx, events, pos)
}

// unheard makes Sojourn's own the message of an agent that died before it said or
// wrote down that it was asked: what a person said is never lost.
func (t *turn) unheard(said, restored reducer.State, at time.Time) []event.Event {
	m := t.in.Message
	asked := func(b event.Block) bool { return b.Type == event.BlockUserMessage }
	if slices.ContainsFunc(said.Blocks, asked) || written(t.promptIDs(), restored) {
		return nil
	}
	ev := own(event.BlockUpsert{Block: event.Block{
		ID: m.ID, Type: event.BlockUserMessage, Status: event.StatusComplete, Source: event.SourceServer, Content: &m.Text, Parts: m.Parts,
	}})
	ev.Context.Timestamp = at
	return []event.Event{ev}
}

// keepLost makes Sojourn's own what a living agent has taken back of what it said
// in this turn (a text that an interrupt cut off, say): no transcript will have
// it, and somebody saw it. Of the turn only that is read into memory.
func (t *turn) keepLost(ctx context.Context, d runner.Delivery) error {
	if len(t.tale.lost) == 0 || t.has(d.Offset, indexLost) {
		return nil
	}
	if err := t.out.Flush(ctx); err != nil {
		return err
	}
	lost := reducer.NewBuilder(reducer.State{})
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, t.since(), stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			t.host.o.Log.Warn("lost blocks are past the stream's retention", "session", t.in.Agent.SessionID)
			return nil
		}
		if err != nil {
			return fmt.Errorf("keep lost blocks: %w", err)
		}
		if t.tale.lost[blockFor(ev)] {
			lost.Add(ev)
		}
	}
	t.owned = true
	return t.say(ctx, d.Offset, indexLost, reducer.Keep(lost.State(), d.Record.TS)...)
}

// blockIn is a block in its conversation.
type blockIn struct{ conversation, id string }

// blockFor names the block that an event is about; a zero one for none.
func blockFor(ev event.Event) blockIn {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return blockIn{ev.Context.Conversation(), p.Block.ID}
	case event.BlockDelta:
		return blockIn{ev.Context.Conversation(), p.BlockID}
	}
	return blockIn{}
}

// unsaved are the events that make the live side and the transcripts equal, of an
// execution whose agent is gone, and of what came before it. asked are the ids of
// its message.
func unsaved(asked []string, live, restored reducer.State, at time.Time) []event.Event {
	return reducer.Difference(live, restored, reducer.DifferenceOptions{At: at, Asked: asked})
}
