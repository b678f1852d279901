package fork

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

// MetadataJoined is the key of a joined block's metadata that has the session it comes from.
const MetadataJoined = "mergedFrom"

// Other is a session whose conversation is joined to a copy's.
type Other struct {
	ID     string
	Events iter.Seq2[event.Event, error]
}

// Text is what a user or an agent said in another session.
type Text struct {
	SessionID string
	User      bool
	Text      string
}

// Joined is what Join has made of a conversation.
type Joined struct {
	// Last is its last block; "" for none.
	Last string
	// Texts are what was said in the other sessions, in order.
	Texts []Text
}

// Join adds the conversations of other sessions to a copy, as blocks of the server: no transcript of
// the agent has them. The turns of all of them, each from a user's message to the next, are in the
// order in which they began. A block or a subagent that is there already, as between a session and
// its fork, is not added again. It fails with the first error of a conversation. The other
// conversations are held in memory.
func Join(ctx context.Context, a *archive.Archive, k Kept, others []Other, to Copy) (Joined, error) {
	j := joiner{kept: k, seen: maps.Clone(k.Blocks), threads: maps.Clone(k.Threads)}
	for _, o := range others {
		if err := j.read(o); err != nil {
			return Joined{}, fmt.Errorf("conversation of session %s: %w", o.ID, err)
		}
	}
	slices.SortStableFunc(j.turns, func(x, y turn) int { return x.began.Compare(y.began) })
	out := Joined{Last: k.Last()}
	var entries []archive.ServerEntry
	for _, t := range j.turns {
		after := k.before(t.began)
		for _, ev := range t.events {
			entries = append(entries, archive.ServerEntry{
				ID: fmt.Sprintf("merged-%s-%d", t.of, len(entries)), Anchor: archive.Anchor{AfterBlockID: after}, Event: ev,
			})
		}
		if after == k.Last() && t.last != "" {
			out.Last = t.last
		}
		out.Texts = append(out.Texts, t.texts...)
	}
	return out, a.AppendServerEntries(ctx, to.ID, to.Epoch, entries...)
}

// before returns the last of the kept blocks before the first message of a user that is later; ""
// for none.
func (k Kept) before(at time.Time) (last string) {
	for _, b := range k.conversation.blocks {
		switch {
		case !k.Blocks[b.id] || b.end:
			continue
		case b.asks && b.at.After(at):
			return last
		}
		last = b.id
	}
	return last
}

// turn is a part of another conversation.
type turn struct {
	of     string
	began  time.Time
	events []event.Event
	// last is its last block in the main conversation.
	last  string
	texts []Text
}

type joiner struct {
	kept          Kept
	turns         []turn
	seen, threads map[string]bool
}

// read splits a conversation into its turns.
func (j *joiner) read(o Other) error {
	whole, err := Point(o.Events, "")
	if err != nil {
		return err
	}
	now := turn{of: o.ID}
	own := map[string]bool{} // what it has itself added
	for ev, err := range o.Events {
		if err != nil {
			return err
		}
		add, begins := j.adds(ev, whole, own)
		if !add {
			continue
		}
		if p, ok := ev.Payload.(event.BlockUpsert); ok {
			if begins && p.Block.Type == event.BlockUserMessage {
				j.end(now)
				now = turn{of: o.ID, began: later(now.began, ev.Context.Timestamp)}
			}
			ev.Payload = event.BlockUpsert{Block: joined(p.Block, o.ID, begins)}
		}
		now.add(ev, begins)
	}
	j.end(now)
	return nil
}

func (j *joiner) end(t turn) {
	if len(t.events) > 0 {
		j.turns = append(j.turns, t)
	}
}

func later(x, y time.Time) time.Time {
	if y.After(x) {
		return y
	}
	return x
}

// adds reports whether an event is about something of the whole other conversation that none before
// has, and whether it begins a block of the main conversation.
func (j *joiner) adds(ev event.Event, whole Kept, own map[string]bool) (add, begins bool) {
	in := ev.Context.Conversation()
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		if in != event.Main {
			return own[in], false
		}
		return j.begins(p.Block.ID, whole, own)
	case event.SubagentSpawned:
		thread := cmp.Or(p.ToolUseID, p.AgentID)
		if own[thread] || j.threads[thread] || !whole.Threads[thread] {
			return own[thread], false
		}
		j.threads[thread], own[thread] = true, true
		if in != event.Main {
			return true, false
		}
		return j.begins(event.SubagentBlockID(thread), whole, own)
	case event.SubagentCompleted:
		return own[cmp.Or(p.ToolUseID, p.AgentID)], false
	}
	return false, false
}

func (j *joiner) begins(id string, whole Kept, own map[string]bool) (add, begins bool) {
	key := "block " + id
	if own[key] {
		return true, false
	}
	if j.seen[id] || !whole.Blocks[id] {
		return false, false
	}
	j.seen[id], own[key] = true, true
	return true, true
}

// joined returns a block as one that the server has added. Later events of a block that have no
// metadata change none.
func joined(b event.Block, of string, begins bool) event.Block {
	b.Source = event.SourceServer
	if b.Metadata = maps.Clone(b.Metadata); b.Metadata == nil {
		if !begins {
			return b
		}
		b.Metadata = map[string]json.RawMessage{}
	}
	if _, known := b.Metadata[MetadataJoined]; !known {
		b.Metadata[MetadataJoined], _ = json.Marshal(of) // a string always encodes
	}
	return b
}

func (t *turn) add(ev event.Event, begins bool) {
	t.events = append(t.events, ev)
	p, ok := ev.Payload.(event.BlockUpsert)
	if ev.Context.Conversation() != event.Main {
		return
	}
	if s, spawned := ev.Payload.(event.SubagentSpawned); spawned {
		t.last = event.SubagentBlockID(cmp.Or(s.ToolUseID, s.AgentID))
	}
	if !ok {
		return
	}
	t.last = p.Block.ID
	said := p.Block.Type == event.BlockUserMessage || p.Block.Type == event.BlockAssistantText
	if begins && said && p.Block.Content != nil {
		t.texts = append(t.texts, Text{SessionID: t.of, User: p.Block.Type == event.BlockUserMessage, Text: *p.Block.Content})
	}
}
