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
// its fork, is not added again; another one that only has its id gets one with its session's before
// it. Join fails with the first error of a conversation. The other conversations are held in memory.
func Join(ctx context.Context, a *archive.Archive, k Kept, others []Other, to Copy) (Joined, error) {
	seen := maps.Clone(k.conversation.seen)
	var turns []turn
	for _, o := range others {
		j := joiner{of: o.ID, seen: seen, added: map[string]bool{}, known: map[string]bool{}, renamed: map[string]string{}}
		if err := j.read(o.Events); err != nil {
			return Joined{}, fmt.Errorf("conversation of session %s: %w", o.ID, err)
		}
		turns = append(turns, j.turns...)
	}
	slices.SortStableFunc(turns, func(x, y turn) int { return x.began.Compare(y.began) })
	out := Joined{Last: k.Last()}
	var entries []archive.ServerEntry
	for _, t := range turns {
		after := k.before(t.began)
		for _, ev := range t.events {
			ev.Context.SessionID = to.ID
			entries = append(entries, archive.ServerEntry{
				ID: fmt.Sprintf("merged-%s-%d", to.ID, len(entries)), Anchor: archive.Anchor{AfterBlockID: after}, Event: ev,
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
	began  time.Time
	events []event.Event
	// last is the last block that it has begun in the main conversation.
	last  string
	texts []Text
}

// joiner splits another conversation into turns of what is not there yet.
type joiner struct {
	of string
	// seen are the blocks of the main conversation that are there, by their ids.
	seen map[string]identity
	// added are the blocks, calls and threads of this conversation that were not there, and known the
	// blocks that were.
	added, known map[string]bool
	// renamed are the new ids of its blocks, calls and threads.
	renamed map[string]string
	turns   []turn
}

func (j *joiner) read(events iter.Seq2[event.Event, error]) error {
	now := turn{}
	for ev, err := range events {
		if err != nil {
			return err
		}
		p, isBlock := ev.Payload.(event.BlockUpsert)
		main := ev.Context.Conversation() == event.Main
		if isBlock && main && p.Block.Type == event.BlockUserMessage && !j.met(p.Block.ID) {
			j.end(now)
			now = turn{began: now.began}
			if at := ev.Context.Timestamp; at.After(now.began) {
				now.began = at
			}
		}
		ev, begins, ok := j.adds(ev)
		if ok {
			now.add(ev, begins, j.of)
		}
	}
	j.end(now)
	return nil
}

func (j *joiner) end(t turn) {
	if len(t.events) > 0 {
		j.turns = append(j.turns, t)
	}
}

// met reports whether an earlier event of this conversation was about the block.
func (j *joiner) met(id string) bool { return j.added[id] || j.known[id] }

// adds returns an event as it is added, if it is about something that is not there yet, and whether
// it begins a block of the main conversation.
func (j *joiner) adds(ev event.Event) (out event.Event, begins, ok bool) {
	in := ev.Context.Conversation()
	if in != event.Main {
		ev.Context.ConversationID = j.name(in)
	}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		if in == event.Main {
			if begins, ok = j.block(p.Block.ID, cmp.Or(p.Block.ToolUseID, p.Block.ID), p.Block.Type == event.BlockToolUse, ev); !ok {
				return ev, false, false
			}
			p.Block.ID = j.name(p.Block.ID)
			p.Block.ToolUseID = j.name(p.Block.ToolUseID)
		} else if !j.added[in] {
			return ev, false, false
		}
		key := in + " " + p.Block.ID
		ev.Payload = event.BlockUpsert{Block: joined(p.Block, j.of, begins || in != event.Main && !j.added[key])}
		j.added[key] = true
		return ev, begins, true
	case event.SubagentSpawned:
		return j.spawned(ev, in, p)
	case event.SubagentCompleted:
		thread := cmp.Or(p.ToolUseID, p.AgentID)
		if !j.added[thread] {
			return ev, false, false
		}
		p.ToolUseID = j.name(thread)
		ev.Payload = p
		return ev, false, true
	}
	return ev, false, false
}

func (j *joiner) spawned(ev event.Event, in string, p event.SubagentSpawned) (out event.Event, begins, ok bool) {
	thread := cmp.Or(p.ToolUseID, p.AgentID)
	stands := event.SubagentBlockID(thread)
	if in == event.Main {
		begins, ok = j.block(stands, thread, true, ev)
	} else {
		ok = j.added[in] || in == thread && j.added[thread] // in itself, where its call is added
	}
	if !ok {
		return ev, false, false
	}
	j.added[thread] = true
	p.ToolUseID = j.name(thread)
	ev.Payload = p
	return ev, begins, true
}

// block reports whether an event about a block of the main conversation is added, and begins it.
// call is the name by which others refer to it.
func (j *joiner) block(id, call string, isCall bool, ev event.Event) (begins, ok bool) {
	if j.met(id) {
		return false, j.added[id]
	}
	now := identityOf(ev)
	was, taken := j.seen[id]
	if taken && was == now {
		j.known[id] = true
		return false, false
	}
	if taken {
		j.renamed[id] = j.of + "/" + id
		if isCall {
			j.renamed[call] = j.of + "/" + call
		}
	}
	j.added[id] = true
	if isCall {
		j.added[call] = true
	}
	j.seen[j.name(id)] = now
	return true, true
}

// name returns the id that something has in the copy.
func (j *joiner) name(id string) string { return cmp.Or(j.renamed[id], id) }

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

func (t *turn) add(ev event.Event, begins bool, of string) {
	t.events = append(t.events, ev)
	if !begins {
		return
	}
	switch p := ev.Payload.(type) {
	case event.SubagentSpawned:
		t.last = event.SubagentBlockID(p.ToolUseID)
	case event.BlockUpsert:
		t.last = p.Block.ID
		user := p.Block.Type == event.BlockUserMessage
		if (user || p.Block.Type == event.BlockAssistantText) && p.Block.Content != nil {
			t.texts = append(t.texts, Text{SessionID: of, User: user, Text: *p.Block.Content})
		}
	}
}
