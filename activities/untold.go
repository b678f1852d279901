package activities

import (
	"context"
	"fmt"
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
	pos := stream.Position{Epoch: t.in.Sandbox.Epoch, Offset: d.Offset, Index: indexUntold}
	if len(untold) == 0 || pos.Compare(t.had) <= 0 {
		return nil
	}
	events, err := t.agent.threadsOnDisk(ctx, untold)
	for until := time.Now().Add(untoldPatience); err == nil && len(events) == 0 && time.Now().Before(until); {
		select {
		case <-time.After(untoldEvery):
			events, err = t.agent.threadsOnDisk(ctx, untold)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("read the transcripts of subagents: %w", err)
	}
	return t.out.Add(ctx, events, pos)
}

// threadsOnDisk are the events of the given conversations, and of those that
// began in them, as the agent's transcripts have them now; behind them the
// subagents' blocks as they stand there, because a thread's end, told late, says
// something of those too.
func (a *agent) threadsOnDisk(ctx context.Context, wanted map[string]bool) ([]event.Event, error) {
	sources, err := a.sources(ctx)
	if err != nil {
		return nil, err
	}
	inside := map[string]bool{}
	for id := range wanted {
		inside[id] = true
	}
	var events, spawned []event.Event
	all := reducer.NewBuilder(reducer.State{})
	for ev, err := range a.adapter.Parse(sources) {
		if err != nil {
			continue
		}
		all.Add(ev)
		in := inside[ev.Context.Conversation()]
		if p, ok := ev.Payload.(event.SubagentSpawned); ok && in {
			inside[p.ToolUseID] = true
		} else if ok && wanted[p.ToolUseID] {
			spawned = append(spawned, ev)
		}
		if in {
			events = append(events, ev)
		}
	}
	if len(events) > 0 {
		events = append(events, subagentBlocks(all.State(), spawned)...)
	}
	return events, ctx.Err()
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
