package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/stream"
)

// collectOwn finds the blocks of Sojourn's own that this turn's attempts put
// into the stream, each with the block that it follows, for the archive. The
// stream is asked, and not this attempt's memory: it knows what an attempt
// before wrote, and in which order, and by the end of the turn it is known
// which of the agent's blocks stayed.
func (t *turn) collectOwn(ctx context.Context) error {
	if !t.owned && !t.tale.own {
		return nil
	}
	since, anchor := t.lostSince()
	c := collectorFrom(anchor)
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, since, stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			// The turn is older than the stream's memory: nobody can tell any more.
			t.host.o.Log.Warn("own blocks are past the stream's retention", "session", t.in.Agent.SessionID)
			return nil
		}
		if err != nil {
			return fmt.Errorf("collect own blocks: %w", err)
		}
		c.hear(ev)
	}
	t.mark.Own = append(t.mark.Own, c.entries()...)
	t.tale.blocks = blockOrder{standing(c.anchor())}
	return nil
}

// ownCollector reads a turn's events for own blocks and their places in their
// conversations.
type ownCollector struct {
	// orders are the conversations of which anything was heard.
	orders map[string]*blockOrder
	own    []ownAt
}

// collectorFrom begins behind a block of the main conversation.
func collectorFrom(anchor string) ownCollector {
	return ownCollector{orders: map[string]*blockOrder{event.Main: {standing(anchor)}}}
}

// ownAt is an event of Sojourn's own and how many blocks of its conversation came
// before it.
type ownAt struct {
	ev     event.Event
	before int
}

func (c *ownCollector) order(conversation string) *blockOrder {
	if c.orders[conversation] == nil {
		c.orders[conversation] = &blockOrder{standing("")}
	}
	return c.orders[conversation]
}

func (c *ownCollector) hear(ev event.Event) {
	blocks := c.order(ev.Context.Conversation())
	block, belongs := ownBlock(ev)
	if !belongs || ev.Context.Source != event.SourceServer {
		c.forgetLost(ev)
		blocks.hear(ev.Payload)
		return
	}
	if _, ends := ev.Payload.(event.SubagentCompleted); ends && blocks.find(block) == nil {
		// It creates no block: that of the subagent stands before, or nowhere.
		c.own = append(c.own, ownAt{ev, len(*blocks)})
		return
	}
	p, upsert := ev.Payload.(event.BlockUpsert)
	lost := upsert && reducer.Lost(p.Block)
	blocks.place(heardBlock{id: block, done: true, filled: true, lost: lost, anew: upsert && !lost})
	c.own = append(c.own, ownAt{ev, blocks.index(block)})
}

// forgetLost forgets that a block was lost which the agent says anew: nothing of
// the first saying stays in the conversation.
func (c *ownCollector) forgetLost(ev event.Event) {
	p, upsert := ev.Payload.(event.BlockUpsert)
	if !upsert || reducer.Lost(p.Block) || p.Block.Status != event.StatusPending && p.Block.Status != event.StatusComplete {
		return
	}
	c.own = slices.DeleteFunc(c.own, func(o ownAt) bool {
		was, upsert := o.ev.Payload.(event.BlockUpsert)
		return upsert && reducer.Lost(was.Block) && blockFor(o.ev) == blockFor(ev)
	})
}

// anchor is the last block of the main conversation that is sure to stay.
func (c *ownCollector) anchor() string {
	blocks := c.order(event.Main)
	return blocks.anchor(len(*blocks))
}

// entries are in the order of their places, not of their events: what was lost
// is known to be only after what followed it.
func (c *ownCollector) entries() []archive.OwnEntry {
	slices.SortStableFunc(c.own, func(a, b ownAt) int { return cmp.Compare(a.before, b.before) })
	var entries []archive.OwnEntry
	for _, o := range c.own {
		conversation := o.ev.Context.Conversation()
		entries = append(entries, archive.OwnEntry{
			ID:     fmt.Sprintf("s%d", o.ev.Context.Seq),
			Anchor: archive.Anchor{ConversationID: conversation, AfterBlockID: c.order(conversation).anchor(o.before)},
			Event:  o.ev,
		})
	}
	return entries
}

// archiveOwn brings Sojourn's own entries into the archive; what does not get
// there stays in the bookmark.
func (t *turn) archiveOwn(ctx context.Context) {
	if len(t.mark.Own) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	if err := t.host.o.Archive.AppendOwn(ctx, t.in.Agent.SessionID, t.fence.Epoch, t.mark.Own...); err != nil {
		t.tale.behind = err.Error()
		return
	}
	t.mark.Own = nil
}
