package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/footprint"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/turn"
)

// An agent may write a subagent's transcript after it reported that the subagent is done.
// These are how long, and at which interval, it is looked for.
const (
	threadsPatience = 2 * time.Second
	threadsEvery    = 100 * time.Millisecond
)

// emitSilentThreads streams, from the transcripts, the threads of silent subagents:
// subscribers must see what a restored conversation shows.
func (a *attempt) emitSilentThreads(ctx context.Context, f turn.Finish) error {
	silent := a.machine.Summary.SilentThreads()
	if len(silent) == 0 || a.machine.Has(turn.Place{Offset: f.Offset, Index: turn.IndexLost}) {
		return nil
	}
	found, err := a.emitThreads(ctx, f.Offset, silent)
	for until := time.Now().Add(threadsPatience); err == nil && !found && time.Now().Before(until); {
		select {
		case <-time.After(threadsEvery):
			found, err = a.emitThreads(ctx, f.Offset, silent)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("read the transcripts of subagents: %w", err)
	}
	return nil
}

// threadsBatch is about how many bytes of subagents' events are appended at once.
const threadsBatch = 1 << 20

// emitThreads streams what the transcripts have of subagents, in batches: they may be of
// any length. Batches that an earlier attempt appended are skipped. It reports whether
// there is anything.
func (a *attempt) emitThreads(ctx context.Context, offset int64, wanted map[string]bool) (found bool, err error) {
	index, weight := turn.IndexThreads, 0
	var batch []event.Event
	for ev, err := range threadsOnDisk(ctx, a.agent, wanted) {
		if err != nil {
			return found, err
		}
		batch, weight, found = append(batch, ev), weight+footprint.Of(ev), true
		if weight < threadsBatch {
			continue
		}
		if err := a.appendAt(ctx, turn.Place{Offset: offset, Index: index}, batch...); err != nil {
			return found, err
		}
		batch, weight, index = nil, 0, min(index+1, turn.IndexLost-1)
	}
	return found, a.appendAt(ctx, turn.Place{Offset: offset, Index: index}, batch...)
}

// threadsOnDisk returns the events of the wanted threads, and of those that started in
// them, from the agent's transcripts; then the subagents' blocks in their present state,
// because the late end of a thread changes them too. Unreadable lines are skipped.
func threadsOnDisk(ctx context.Context, a *host.Agent, wanted map[string]bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		t, err := transcriptsOf(ctx, a)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		inside := maps.Clone(wanted)
		var spawned []event.Event
		starts, found := reducer.NewBuilder(reducer.State{}), false
		for ev, err := range a.Adapter.Parse(t.sources) {
			if err != nil {
				continue
			}
			in := inside[ev.Context.Conversation()]
			if p, ok := ev.Payload.(event.SubagentSpawned); ok && in {
				inside[p.ToolUseID] = true
			} else if ok && wanted[p.ToolUseID] {
				spawned = append(spawned, ev)
			}
			if startOf(ev, wanted) {
				starts.Add(ev)
			}
			if found = found || in; in && !yield(ev, nil) {
				return
			}
		}
		if found && !yieldAll(yield, subagentBlocks(starts.State(), spawned)) {
			return
		}
		if err := errors.Join(t.failed(), ctx.Err()); err != nil {
			yield(event.Event{}, err)
		}
	}
}

// yieldAll reports whether the consumer took all events.
func yieldAll(yield func(event.Event, error) bool, events []event.Event) bool {
	for _, ev := range events {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// startOf reports whether an event is about the reference block of one of the subagents.
func startOf(ev event.Event, wanted map[string]bool) bool {
	switch p := ev.Payload.(type) {
	case event.SubagentSpawned:
		return wanted[p.ToolUseID]
	case event.SubagentCompleted:
		return wanted[p.ToolUseID]
	case event.BlockUpsert:
		for id := range wanted {
			if p.Block.ID == event.SubagentBlockID(id) { // an upsert may have no other reference
				return true
			}
		}
	case event.SessionIdle:
		return true // it ends pending blocks
	}
	return false
}

// subagentBlocks returns the blocks of subagents as a conversation has them.
func subagentBlocks(s reducer.State, spawned []event.Event) []event.Event {
	var out []event.Event
	for _, ev := range spawned {
		id := event.SubagentBlockID(ev.Payload.(event.SubagentSpawned).ToolUseID)
		for _, b := range s.Conversation(ev.Context.Conversation()) {
			if b.ID == id {
				ev.Payload = event.BlockUpsert{Block: b}
				out = append(out, ev)
			}
		}
	}
	return out
}
