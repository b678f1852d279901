package fork

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// ErrNoPoint means that the conversation can't be forked at the block: it is not in the main
// conversation, or a call before it has not ended.
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
	n, err := k.conversation.end(k.Last())
	if err != nil {
		return false // the last call may still end, and does so in the fork
	}
	more := false
	for _, b := range k.conversation.blocks[:n] {
		if k.Blocks[b.id] {
			continue
		}
		k.Blocks[b.id], more = true, true
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

// has reports whether a block of a conversation is kept.
func (k Kept) has(conversation, block string) bool {
	if conversation == event.Main {
		return k.Blocks[block]
	}
	return k.Threads[conversation]
}

// Point returns the blocks of a conversation up to the one with the id and including it, with the
// ends of the calls before it; for "" all of them, but for calls at the end that may still end. It
// fails with the first error of the events, since a fork would lose what is behind it without a
// word, and with [ErrNoPoint].
func Point(events iter.Seq2[event.Event, error], at string) (Kept, error) {
	c, err := read(events)
	if err != nil {
		return Kept{}, err
	}
	return c.upTo(at)
}

// conversation is what decides where a fork may end.
type conversation struct {
	// blocks of the main conversation, in order.
	blocks []block
	seen   map[string]bool
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
	// asks: it is a user's message. A call that has not ended before it is not waited for.
	asks bool
	// end: it is the end of a subagent, which is no block of its own.
	end bool
	// at is when the agent wrote it down.
	at time.Time
}

type place struct{ conversation, block string }

func read(events iter.Seq2[event.Event, error]) (*conversation, error) {
	c := &conversation{seen: map[string]bool{}, threads: map[string]place{}, spoke: map[string]bool{}}
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
		c.block(in, b)
	case event.SubagentSpawned:
		c.thread(in, cmp.Or(p.ToolUseID, p.AgentID), p.AgentID)
	case event.SubagentCompleted:
		stands := event.SubagentBlockID(cmp.Or(p.ToolUseID, p.AgentID))
		c.block(in, block{id: "end of " + stands, of: stands, end: true})
	}
}

// thread adds the conversation of a subagent, which the agent may have under another name. Some
// agents tell of its start in itself: it begins with the call of its name.
func (c *conversation) thread(in, id, agents string) {
	begins := place{in, event.SubagentBlockID(id)}
	if in == id {
		begins = place{event.Main, id}
	} else {
		c.block(in, block{id: begins.block, call: begins.block})
	}
	for _, name := range []string{id, agents} {
		if _, known := c.threads[name]; name != "" && !known {
			c.threads[name] = begins
		}
	}
}

func (c *conversation) block(in string, b block) {
	if in == event.Main && !c.seen[b.id] {
		c.seen[b.id] = true
		c.blocks = append(c.blocks, b)
	}
}

func (c *conversation) upTo(at string) (Kept, error) {
	n, err := c.end(at)
	if err != nil {
		return Kept{}, err
	}
	k := Kept{Blocks: map[string]bool{}, Threads: map[string]bool{}, Whole: n == len(c.blocks), conversation: c}
	for _, b := range c.blocks[:n] {
		k.Blocks[b.id] = true
	}
	k.addThreads()
	return k, nil
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

// end returns how many blocks are kept.
func (c *conversation) end(at string) (int, error) {
	ends := c.ends()
	if at == "" {
		last := 0
		for n := range len(c.blocks) + 1 {
			if ends[n] {
				last = n
			}
		}
		return last, nil
	}
	for n, b := range c.blocks {
		if b.id != at {
			continue
		}
		for n++; n <= len(c.blocks); n++ {
			if ends[n] {
				return n, nil
			}
		}
		return 0, fmt.Errorf("%w: a call of block %q has not ended", ErrNoPoint, at)
	}
	return 0, fmt.Errorf("%w: the main conversation has no block %q in the archive", ErrNoPoint, at)
}

// ends reports of each number of blocks whether a conversation may end behind them: no call among
// them ends behind them, before a user's next message.
func (c *conversation) ends() []bool {
	none := len(c.blocks)
	asked, ended := make([]int, none), map[string]int{}
	next := none
	for n, b := range slices.Backward(c.blocks) {
		if asked[n] = next; b.asks {
			next = n
		}
		if b.of != "" {
			ended[b.of] = n
		}
	}
	ok := make([]bool, none+1)
	until := 0 // with fewer blocks a call would be open
	for n, b := range c.blocks {
		ok[n] = n >= until
		if b.call == "" {
			continue
		}
		switch end, has := ended[b.call]; {
		case has && end < asked[n]:
			until = max(until, end+1)
		case !has && asked[n] == none:
			until = none + 1 // it may still end
		}
	}
	ok[none] = none >= until
	return ok
}
