package reducer

import (
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// thread is one conversation under construction.
type thread struct {
	head  Subagent // without blocks; unused for main
	nodes []*node
	index map[string]*node
	// open holds the nodes that idleness may change, so that it costs the blocks
	// since the last one and not the whole conversation.
	open []*node
	// duplicateIDs means that the initial state had one id twice; no fold makes such a
	// state.
	duplicateIDs bool

	handed []event.Block // as last returned
	stale  bool          // handed is older than nodes
}

// node is one block under construction. While it receives deltas its text is in
// text, and block.Content is outdated. What a delta needs is kept together, apart
// from the block: over many blocks the memory touched dominates the cost.
type node struct {
	text      strings.Builder
	takesText bool // the block's type has text
	grows     bool // text holds the content
	isOpen    bool // in the thread's open list
	at        int  // place in the thread's nodes
	home      *thread
	block     *event.Block // not shared with a returned state
}

func (t *thread) load(blocks []event.Block) {
	for _, b := range blocks {
		t.add(b)
	}
	t.handed, t.stale = blocks, false
}

func (t *thread) add(b event.Block) {
	c := &node{block: &b, takesText: b.Type.HasText(), at: len(t.nodes), home: t}
	if t.index == nil {
		t.index = make(map[string]*node)
	}
	t.duplicateIDs = t.duplicateIDs || t.index[b.ID] != nil
	t.nodes = append(t.nodes, c)
	t.index[b.ID] = c
	t.open = c.enlist(t.open)
}

func (t *thread) set(b event.Block) {
	c := t.index[b.ID]
	c.put(b)
	t.open = c.enlist(t.open)
}

// blocks returns the current conversation, in a slice that is never written to
// again.
func (t *thread) blocks() []event.Block {
	if !t.stale {
		return t.handed
	}
	out := make([]event.Block, len(t.nodes))
	for i, c := range t.nodes {
		out[i] = c.current()
	}
	t.handed, t.stale = out, false
	return out
}

// complete completes the pending blocks, drops the empty ones, and returns the ids of
// those.
func (t *thread) complete() (changed bool, dropped []string) {
	hole := len(t.nodes)
	for _, c := range t.open {
		c.isOpen = false
		b := c.current()
		if !incomplete(b) {
			continue
		}
		changed = true
		if b, keep := complete(b); keep {
			c.put(b)
			continue
		}
		hole = min(hole, c.at)
		t.nodes[c.at] = nil
		dropped = append(dropped, b.ID)
		t.forget(c)
	}
	t.open = t.open[:0]
	t.close(hole)
	return changed, dropped
}

// drop removes the block with an id that exists.
func (t *thread) drop(id string) {
	c := t.index[id]
	t.nodes[c.at] = nil
	t.open = slices.DeleteFunc(t.open, func(o *node) bool { return o == c })
	t.forget(c)
	t.close(c.at)
}

// forget removes c from the index. If the initial state had the id twice, the
// earlier block is found by it from then on, as by a scan.
func (t *thread) forget(c *node) {
	id := c.block.ID
	if t.index[id] != c {
		return
	}
	delete(t.index, id)
	if !t.duplicateIDs {
		return
	}
	for _, other := range t.nodes {
		if other != nil && other.block.ID == id {
			t.index[id] = other
		}
	}
}

// close moves the nodes after the first hole together. Holes are near the end:
// only blocks since the last idleness, or of a turn that was cut off, are
// dropped.
func (t *thread) close(hole int) {
	kept := slices.DeleteFunc(t.nodes[hole:], func(c *node) bool { return c == nil })
	t.nodes = t.nodes[:hole+len(kept)]
	for i, c := range kept {
		c.at = hole + i
	}
}

func (c *node) enlist(open []*node) []*node {
	if c.isOpen || !incomplete(*c.block) {
		return open
	}
	c.isOpen = true
	return append(open, c)
}

// write appends to the text in amortised time of the delta's length. Strings read earlier
// don't change: the buffer only grows after them.
func (c *node) write(delta string) {
	if !c.grows {
		c.grows = true
		c.text.WriteString(*orZero(c.block.Content))
	}
	if c.text.Cap()-c.text.Len() < len(delta) {
		// Grow doubles, where append alone would add a quarter: a third of the
		// memory traffic, and so of the collector's work.
		c.text.Grow(len(delta))
	}
	c.text.WriteString(delta)
}

// current returns the block with its text.
func (c *node) current() event.Block {
	if c.grows && (c.block.Content == nil || len(*c.block.Content) != c.text.Len()) {
		content := c.text.String()
		c.block.Content = &content
	}
	return *c.block
}

// put replaces the block; a new content replaces the collected text.
func (c *node) put(b event.Block) {
	if c.grows && b.Content != c.block.Content {
		c.grows = false
		c.text.Reset()
	}
	*c.block, c.takesText = b, b.Type.HasText()
}
