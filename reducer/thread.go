package reducer

import (
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// thread is one conversation under construction.
type thread struct {
	head  Subagent // without blocks; unused for main
	cells []*cell
	index map[string]*cell
	// open holds the cells that idleness may change, so that it costs what
	// happened since the last one and not the whole conversation.
	open []*cell
	// twins means that the state came with one id twice; no fold makes such.
	twins bool

	handed []event.Block // as last handed out
	stale  bool          // handed is older than cells
}

// cell is one block under construction. While deltas come its text grows in
// text, and block.Content is behind. What a delta needs is together, apart
// from the block: over many blocks the memory that it touches is the cost.
type cell struct {
	text      strings.Builder
	takesText bool // the block's type has text
	grows     bool // text holds the content
	isOpen    bool // in the thread's open list
	at        int  // place in the thread's cells
	home      *thread
	block     *event.Block // of this cell alone
}

func (t *thread) load(blocks []event.Block) {
	for _, b := range blocks {
		t.add(b)
	}
	t.handed, t.stale = blocks, false
}

func (t *thread) add(b event.Block) {
	c := &cell{block: &b, takesText: b.Type.HasText(), at: len(t.cells), home: t}
	if t.index == nil {
		t.index = make(map[string]*cell)
	}
	t.twins = t.twins || t.index[b.ID] != nil
	t.cells = append(t.cells, c)
	t.index[b.ID] = c
	t.open = c.enlist(t.open)
}

func (t *thread) set(b event.Block) {
	c := t.index[b.ID]
	c.put(b)
	t.open = c.enlist(t.open)
}

// blocks is the conversation as it stands, in a slice that is never written
// to again.
func (t *thread) blocks() []event.Block {
	if !t.stale {
		return t.handed
	}
	out := make([]event.Block, len(t.cells))
	for i, c := range t.cells {
		out[i] = c.current()
	}
	t.handed, t.stale = out, false
	return out
}

// settle completes and drops, and returns the ids dropped.
func (t *thread) settle() (changed bool, dropped []string) {
	hole := len(t.cells)
	for _, c := range t.open {
		c.isOpen = false
		b := c.current()
		if !unsettled(b) {
			continue
		}
		changed = true
		if b, keep := settle(b); keep {
			c.put(b)
			continue
		}
		hole = min(hole, c.at)
		t.cells[c.at] = nil
		dropped = append(dropped, b.ID)
		t.forget(c)
	}
	t.open = t.open[:0]
	t.close(hole)
	return changed, dropped
}

// drop takes out the block with the given id, which stands.
func (t *thread) drop(id string) {
	c := t.index[id]
	t.cells[c.at] = nil
	t.open = slices.DeleteFunc(t.open, func(o *cell) bool { return o == c })
	t.forget(c)
	t.close(c.at)
}

// forget takes c out of the index; where a state came with one id twice, the
// earlier block answers to it from then on, as a scan would find.
func (t *thread) forget(c *cell) {
	id := c.block.ID
	if t.index[id] != c {
		return
	}
	delete(t.index, id)
	if !t.twins {
		return
	}
	for _, other := range t.cells {
		if other != nil && other.block.ID == id {
			t.index[id] = other
		}
	}
}

// close moves the cells after the first hole together. Holes are young: what
// is dropped came since the last idleness, or in a turn that was cut off.
func (t *thread) close(hole int) {
	kept := slices.DeleteFunc(t.cells[hole:], func(c *cell) bool { return c == nil })
	t.cells = t.cells[:hole+len(kept)]
	for i, c := range kept {
		c.at = hole + i
	}
}

func (c *cell) enlist(open []*cell) []*cell {
	if c.isOpen || !unsettled(*c.block) {
		return open
	}
	c.isOpen = true
	return append(open, c)
}

// write appends to the text in amortised time of the delta's length. Strings
// read before stay as they are: the buffer only grows behind them.
func (c *cell) write(delta string) {
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

// current is the block with its text.
func (c *cell) current() event.Block {
	if c.grows && (c.block.Content == nil || len(*c.block.Content) != c.text.Len()) {
		content := c.text.String()
		c.block.Content = &content
	}
	return *c.block
}

// put replaces the block; a new content replaces the text that grew.
func (c *cell) put(b event.Block) {
	if c.grows && b.Content != c.block.Content {
		c.grows = false
		c.text.Reset()
	}
	*c.block, c.takesText = b, b.Type.HasText()
}
