package reducer

import (
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Builder folds events like [Reduce], for long folds: an event costs the same at
// block 100 000 as at block 10, and deltas cost their own length, however long
// the text has grown. The zero value is ready and empty. A Builder is not safe
// for concurrent use; the states that it returns are.
type Builder struct {
	main    thread
	threads []*thread
	// byTool and byAgent find a thread. If several share an agent id the first
	// counts, as in a scan.
	byTool, byAgent map[string]int
	// refs maps a reference block's id to the first thread, in order, that holds it.
	refs map[string]int
	// lastWritten is the block of the last delta: most deltas follow one to the same
	// block. It is dropped by whatever could make its ids refer to another block.
	lastWritten *node
	hotConv     string

	subagents []Subagent // as last returned
	stale     bool       // subagents is older than threads
}

var _ tree = (*Builder)(nil)

// NewBuilder continues from s, which is not written to.
func NewBuilder(s State) *Builder {
	b := &Builder{}
	b.main.load(s.Blocks)
	b.noteRefs(main, s.Blocks)
	for _, sub := range s.Subagents {
		at := b.addSubagent(sub)
		b.threads[at].load(sub.Blocks)
		b.noteRefs(at, sub.Blocks)
	}
	b.subagents, b.stale = s.Subagents, false
	return b
}

// Add folds one event. What e holds becomes part of the states to come and
// must not be written to afterwards.
func (b *Builder) Add(e event.Event) {
	if d, ok := e.Payload.(event.BlockDelta); ok {
		b.addDelta(e.Context.Conversation(), d)
		return
	}
	apply(b, e)
}

// Has reports whether a conversation has a block.
func (b *Builder) Has(conv, id string) bool {
	at, ok := conversation(b, conv)
	if ok {
		_, ok = b.block(at, id)
	}
	return ok
}

// State returns the conversation so far. Later events don't change it. It costs
// one copy of each conversation that changed since the last call; if none did it
// is the same state, see [State.Same].
func (b *Builder) State() State {
	if b.stale {
		subs := make([]Subagent, len(b.threads))
		for i, t := range b.threads {
			subs[i] = t.head
			subs[i].Blocks = t.blocks()
		}
		b.subagents, b.stale = subs, false
	}
	return State{Blocks: b.main.blocks(), Subagents: b.subagents}
}

// addDelta is delta with a fast path for the usual case.
func (b *Builder) addDelta(conv string, d event.BlockDelta) {
	if d.Delta == "" {
		return
	}
	if b.lastWritten != nil && b.lastWritten.block.ID == d.BlockID && b.hotConv == conv {
		b.lastWritten.write(d.Delta)
		b.touch(b.lastWritten.home)
		return
	}
	at, known := conversation(b, conv)
	if !known {
		return
	}
	if c := b.grow(at, d.BlockID, d.Delta); c != nil {
		b.lastWritten, b.hotConv = c, conv
	}
}

// grow appends to a block with text; it returns nil if there is no such block.
func (b *Builder) grow(at int, id, delta string) *node {
	t := b.thread(at)
	c := t.index[id]
	if c == nil || !c.takesText {
		return nil
	}
	c.write(delta)
	b.touch(t)
	return c
}

func (b *Builder) appendText(at int, id, delta string) { b.grow(at, id, delta) }

func (b *Builder) thread(at int) *thread {
	if at == main {
		return &b.main
	}
	return b.threads[at]
}

func (b *Builder) touch(t *thread) {
	t.stale = true
	if t != &b.main {
		b.stale = true
	}
}

func (b *Builder) lookup(toolUseID, agentID string) int {
	if at, ok := b.byTool[toolUseID]; ok && toolUseID != "" {
		return at
	}
	if at, ok := b.byAgent[agentID]; ok && agentID != "" {
		return at
	}
	return -1
}

func (b *Builder) subagent(at int) Subagent { return b.threads[at].head }

func (b *Builder) addSubagent(s Subagent) int {
	at := len(b.threads)
	s.Blocks = nil
	b.threads = append(b.threads, &thread{head: s})
	first(&b.byTool, s.ToolUseID, at)
	first(&b.byAgent, s.AgentID, at)
	b.stale, b.lastWritten = true, nil
	return at
}

func (b *Builder) setSubagent(at int, s Subagent) {
	b.threads[at].head = s
	first(&b.byAgent, s.AgentID, at)
	b.stale, b.lastWritten = true, nil
}

// first records that key is at place at, unless it is at an earlier one.
func first(index *map[string]int, key string, at int) {
	if *index == nil {
		*index = make(map[string]int)
	}
	if old, ok := (*index)[key]; !ok || at < old {
		(*index)[key] = at
	}
}

func (b *Builder) block(at int, id string) (event.Block, bool) {
	c := b.thread(at).index[id]
	if c == nil {
		return event.Block{}, false
	}
	return c.current(), true
}

func (b *Builder) addBlock(at int, block event.Block) {
	t := b.thread(at)
	t.add(block)
	b.touch(t)
	b.noteRef(at, block.ID)
}

func (b *Builder) setBlock(at int, block event.Block) {
	t := b.thread(at)
	t.set(block)
	b.touch(t)
	b.lastWritten = nil // the block may have become one that takes no text
}

func (b *Builder) dropBlock(at int, id string) {
	t := b.thread(at)
	t.drop(id)
	b.touch(t)
	b.lastWritten = nil
	b.forgetRef(id)
}

var refPrefix = event.SubagentBlockID("")

func (b *Builder) noteRef(at int, id string) {
	if strings.HasPrefix(id, refPrefix) {
		first(&b.refs, id, at)
	}
}

func (b *Builder) noteRefs(at int, blocks []event.Block) {
	for i := range blocks {
		b.noteRef(at, blocks[i].ID)
	}
}

func (b *Builder) locate(refID string) (int, bool) {
	at, ok := b.refs[refID]
	return at, ok
}

func (b *Builder) complete(at int) {
	t := b.thread(at)
	changed, dropped := t.complete()
	if changed {
		b.touch(t)
	}
	for _, id := range dropped {
		b.forgetRef(id)
	}
}

// forgetRef handles the drop of a block with a reference's id: the next place in
// order counts from then on.
func (b *Builder) forgetRef(id string) {
	if !strings.HasPrefix(id, refPrefix) {
		return
	}
	delete(b.refs, id)
	for at := main; at < len(b.threads); at++ {
		if b.thread(at).index[id] != nil {
			b.refs[id] = at
			return
		}
	}
}
