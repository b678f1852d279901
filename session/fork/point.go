package fork

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// ErrNoPoint means that the main conversation has no such block in the archive.
var ErrNoPoint = errors.New("can't be forked there")

// Kept are the blocks that a fork has.
type Kept struct {
	// Blocks of the main conversation, and Threads, the conversations of subagents that begin in it.
	Blocks, Threads map[string]bool
	// Whole: nothing is left out.
	Whole bool

	conversation *conversation
}

// Last returns the last of the blocks; "" for none.
func (k Kept) Last() string {
	for _, b := range slices.Backward(k.conversation.blocks) {
		if k.Blocks[b.id] && !b.end {
			return b.id
		}
	}
	return ""
}

// extend adds blocks, and the ends of the calls among them. It reports whether anything is kept
// now that the blocks don't have.
func (k Kept) extend(has map[string]bool) bool {
	maps.Copy(k.Blocks, has)
	more := false
	for _, b := range k.conversation.blocks[:k.conversation.end(k.Last())] {
		if !k.Blocks[b.id] {
			k.Blocks[b.id], more = true, true
		}
	}
	k.addThreads()
	return more
}

// addThreads adds the threads that begin in what is kept.
func (k Kept) addThreads() {
	for thread := range k.conversation.threads {
		if k.conversation.begins(thread, k) {
			k.Threads[thread] = true
		}
	}
}

// has reports whether a block of a conversation is kept; "" is the conversation's beginning.
func (k Kept) has(conversation, block string) bool {
	if conversation == event.Main {
		return block == "" || k.Blocks[block]
	}
	return k.Threads[conversation]
}

// Point returns the blocks of a conversation up to the first one that has one of the ids, and
// including it, with the ends of the calls before it in its turn; all of them for no ids. It fails
// with the first error of the events, since a fork would lose what is behind it without a word, and
// with [ErrNoPoint].
func Point(events iter.Seq2[event.Event, error], at ...string) (Kept, error) {
	c, err := read(events)
	if err != nil {
		return Kept{}, err
	}
	n := len(c.blocks)
	if len(at) > 0 {
		i := slices.IndexFunc(c.blocks, func(b block) bool { return slices.Contains(at, b.id) && !b.end })
		if i < 0 {
			return Kept{}, fmt.Errorf("%w: the main conversation has no block %q in the archive", ErrNoPoint, at[0])
		}
		n = c.end(c.blocks[i].id)
	}
	k := Kept{Blocks: map[string]bool{}, Threads: map[string]bool{}, Whole: n == len(c.blocks), conversation: c}
	for _, b := range c.blocks[:n] {
		k.Blocks[b.id] = true
	}
	k.addThreads()
	return k, nil
}

// conversation is what decides where a fork ends.
type conversation struct {
	// blocks of the main conversation, in order, and the ends of calls among them that are no block.
	blocks []block
	// seen are the same blocks, each with what it was at first.
	seen map[string]identity
	// threads are the subagents' conversations, each with the one in which it began and the block
	// that stands for it there.
	threads map[string]place
	// spoke are the conversations that have events.
	spoke map[string]bool
}

type block struct {
	id string
	// call is set for a call and for a subagent, and of for the end of one: its name, which is the
	// agent's if that has one.
	call, of string
	// asks: it is a user's message, which begins a turn.
	asks bool
	// end: it is the end of a call, which is no block of its own.
	end bool
	// at is when the agent wrote it down.
	at time.Time
}

// identity distinguishes two blocks that have one id in different conversations.
type identity struct {
	kind    event.BlockType
	at      int64
	content [sha256.Size]byte
}

func identityOf(ev event.Event) identity {
	id := identity{at: ev.Context.Timestamp.UnixNano()}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		id.kind = p.Block.Type
		if p.Block.Content != nil {
			id.content = sha256.Sum256([]byte(*p.Block.Content))
		}
	case event.SubagentSpawned:
		id.kind, id.content = event.BlockSubagent, sha256.Sum256([]byte(p.Prompt))
	}
	return id
}

type place struct{ conversation, block string }

func read(events iter.Seq2[event.Event, error]) (*conversation, error) {
	c := &conversation{seen: map[string]identity{}, threads: map[string]place{}, spoke: map[string]bool{}}
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		c.add(ev)
	}
	return c, nil
}

func (c *conversation) add(ev event.Event) {
	in := ev.Context.Conversation()
	c.spoke[in] = true
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		b := block{id: p.Block.ID, asks: p.Block.Type == event.BlockUserMessage, at: ev.Context.Timestamp}
		switch p.Block.Type {
		case event.BlockToolUse:
			b.call = cmp.Or(p.Block.ToolUseID, p.Block.ID)
		case event.BlockToolResult:
			b.of = p.Block.ToolUseID
		}
		c.block(in, b, ev)
		if final := p.Block.Execution; b.call != "" && final != "" && final != event.ExecutionRunning {
			c.ended(in, b.call, ev)
		}
	case event.SubagentSpawned:
		c.thread(in, p, ev)
	case event.SubagentCompleted:
		c.ended(in, event.SubagentBlockID(cmp.Or(p.ToolUseID, p.AgentID)), ev)
	}
}

// thread adds the conversation of a subagent, which the agent may have under another name. Some
// agents tell of its start in itself: it begins with the call of its name. A child session is no
// call that has to end.
func (c *conversation) thread(in string, p event.SubagentSpawned, ev event.Event) {
	id := cmp.Or(p.ToolUseID, p.AgentID)
	begins := place{in, event.SubagentBlockID(id)}
	if in == id {
		begins = place{event.Main, id}
	} else {
		b := block{id: begins.block, at: ev.Context.Timestamp}
		if p.ChildSessionID == "" {
			b.call = begins.block
		}
		c.block(in, b, ev)
	}
	for _, name := range []string{id, p.AgentID} {
		if _, known := c.threads[name]; name != "" && !known {
			c.threads[name] = begins
		}
	}
}

// ended adds the end of a call.
func (c *conversation) ended(in, call string, ev event.Event) {
	c.block(in, block{id: "end of " + call, of: call, end: true}, ev)
}

func (c *conversation) block(in string, b block, ev event.Event) {
	if _, known := c.seen[b.id]; in != event.Main || known {
		return
	}
	c.seen[b.id] = identityOf(ev)
	c.blocks = append(c.blocks, b)
}

// begins reports whether a thread begins in what is kept, itself or the one in which it begins.
func (c *conversation) begins(thread string, k Kept) bool {
	for range len(c.threads) {
		p, known := c.threads[thread]
		if !known {
			return false
		}
		if p.conversation == event.Main {
			return k.Blocks[p.block]
		}
		thread = p.conversation
	}
	return false
}

// end returns how many blocks there are up to the one with the id, and up to the ends of the calls
// among them: those that end behind it, before the next message of a user.
func (c *conversation) end(id string) int {
	n := 1 + slices.IndexFunc(c.blocks, func(b block) bool { return b.id == id })
	first := max(n-1, 0)
	for first > 0 && !c.blocks[first].asks {
		first--
	}
	turn := c.blocks[first:]
	if next := slices.IndexFunc(c.blocks[n:], func(b block) bool { return b.asks }); next >= 0 {
		turn = c.blocks[first : n+next]
	}
	for i := first; i < n; i++ {
		for m, b := range turn {
			if b.of != "" && b.of == c.blocks[i].call {
				n = max(n, first+m+1)
			}
		}
	}
	return n
}
