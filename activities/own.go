package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
)

// collectOwn finds the blocks of Sojourn's own that this turn's attempts put
// into the stream, each with the block that it follows, for the archive. The
// stream is asked, and not this attempt's memory: it knows what an attempt
// before wrote, and in which order, and by the end of the turn it is known
// which of the agent's blocks stayed.
func (t *turn) collectOwn(ctx context.Context) error {
	if !t.owned && !t.tale.lost && !t.tale.own {
		return nil
	}
	var c ownCollector
	since, anchor := t.lostSince()
	c.blocks.place(standing(anchor))
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
	t.tale.blocks = blockOrder{standing(c.blocks.anchor(len(c.blocks)))}
	return nil
}

// ownCollector reads a turn's events for own blocks and their places in the
// main conversation.
type ownCollector struct {
	blocks blockOrder
	own    []ownAt
}

// ownAt is an event of Sojourn's own and how many blocks came before it.
type ownAt struct {
	ev     event.Event
	before int
}

func (c *ownCollector) hear(ev event.Event) {
	if ev.Context.Conversation() != event.Main {
		return
	}
	if block, belongs := ownBlock(ev); belongs && ev.Context.Source == event.SourceServer {
		_, upsert := ev.Payload.(event.BlockUpsert)
		c.blocks.place(heardBlock{id: block, done: true, filled: true, anew: upsert})
		c.own = append(c.own, ownAt{ev, c.blocks.index(block)})
		return
	}
	c.blocks.hear(ev.Payload)
}

func (c *ownCollector) entries() []archive.OwnEntry {
	var entries []archive.OwnEntry
	for _, o := range c.own {
		entries = append(entries, archive.OwnEntry{
			ID:     fmt.Sprintf("s%d", o.ev.Context.Seq),
			Anchor: archive.Anchor{ConversationID: event.Main, AfterBlockID: c.blocks.anchor(o.before)},
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
