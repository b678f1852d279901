package activities

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/stream"
)

// threads are the subagents of a turn, and whether anything of what they said
// came live.
type threads map[string]bool

func (ts threads) hear(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.SubagentSpawned:
		if _, known := ts[p.ToolUseID]; !known {
			ts[p.ToolUseID] = false
		}
	case event.BlockUpsert:
		if _, known := ts[ev.Context.Conversation()]; known {
			ts[ev.Context.Conversation()] = true
		}
	}
}

// untold are the subagents that nothing was heard of.
func (ts threads) untold() map[string]bool {
	out := map[string]bool{}
	for id, told := range ts {
		if !told {
			out[id] = true
		}
	}
	return out
}

// An agent may write a subagent's transcript a moment after it said that the
// subagent is done. It is looked for this long, this often.
const (
	untoldPatience = 2 * time.Second
	untoldEvery    = 100 * time.Millisecond
)

// tellUntold tells what subagents did of which the agent says nothing live, by
// their transcripts: whoever watches shall see what a restored conversation
// shows.
func (t *turn) tellUntold(ctx context.Context, d runner.Delivery) error {
	untold := t.tale.threads.untold()
	if len(untold) == 0 || t.has(d.Offset, indexLost) {
		return nil
	}
	found, err := t.tellThreads(ctx, d, untold)
	for until := time.Now().Add(untoldPatience); err == nil && !found && time.Now().Before(until); {
		select {
		case <-time.After(untoldEvery):
			found, err = t.tellThreads(ctx, d, untold)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("read the transcripts of subagents: %w", err)
	}
	return nil
}

// threadsBatch is about how many bytes of subagents' events are told at once.
const threadsBatch = 1 << 20

// tellThreads tells what the transcripts have of subagents, a batch at a time:
// they may be of any length. Batches that an attempt before has told are
// skipped. It reports whether there is anything.
func (t *turn) tellThreads(ctx context.Context, d runner.Delivery, wanted map[string]bool) (found bool, err error) {
	index, weight := indexUntold, 0
	var batch []event.Event
	for ev, err := range t.agent.threadsOnDisk(ctx, wanted) {
		if err != nil {
			return found, err
		}
		batch, weight, found = append(batch, ev), weight+stream.Weight(ev), true
		if weight < threadsBatch {
			continue
		}
		if err := t.say(ctx, d.Offset, index, batch...); err != nil {
			return found, err
		}
		batch, weight, index = nil, 0, min(index+1, indexLost-1)
	}
	return found, t.say(ctx, d.Offset, index, batch...)
}

// threadsOnDisk are the events of the given conversations, and of those that
// began in them, as the agent's transcripts have them now; behind them the
// subagents' blocks as they stand there, because a thread's end, told late, says
// something of those too. Lines that can't be read are left out.
func (a *agent) threadsOnDisk(ctx context.Context, wanted map[string]bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		sources, err := a.sources(ctx)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		inside := maps.Clone(wanted)
		var spawned []event.Event
		starts, found := reducer.NewBuilder(reducer.State{}), false
		for ev, err := range a.adapter.Parse(sources) {
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
		if found {
			for _, ev := range subagentBlocks(starts.State(), spawned) {
				if !yield(ev, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(event.Event{}, err)
		}
	}
}

// startOf reports whether an event is about the block that stands for one of
// the subagents in its parent's conversation.
func startOf(ev event.Event, wanted map[string]bool) bool {
	switch p := ev.Payload.(type) {
	case event.SubagentSpawned:
		return wanted[p.ToolUseID]
	case event.SubagentCompleted:
		return wanted[p.ToolUseID]
	case event.BlockUpsert:
		for id := range wanted {
			if p.Block.ID == event.SubagentBlockID(id) { // an upsert may have nothing else
				return true
			}
		}
	case event.SessionIdle:
		return true // it ends what is pending
	}
	return false
}

// subagentBlocks shows the blocks of subagents as a conversation has them.
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
