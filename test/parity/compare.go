package parity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Rules are what the live side of an agent can't have. The zero value requires that
// everything is equal, lost blocks and server blocks included. For transcripts of the
// agent alone see [Native].
type Rules struct {
	// UngivenPrefix is the prefix of the live id of a user message to which the host
	// gave no id. Such a message may have another id than its counterpart. Default: all
	// ids must be equal.
	UngivenPrefix string
	// NoCommonIDs: the two sides number their blocks differently, so ids are not
	// compared. Default: ids must be equal.
	NoCommonIDs bool
	// UnsentDepth is the depth from which on subagents' threads are not sent live. A
	// subagent of the main conversation has depth 1. Default: 0, all threads are sent.
	UnsentDepth int
	// UnsentText: texts, thoughts, messages and errors of subagents may be
	// missing live. Default: they must be there.
	UnsentText bool
}

// Difference is one place in which the two sides differ. Live or Restored is "" if that
// side has nothing there.
type Difference struct {
	// Where is the conversation and the position in it.
	Where    string
	Live     string
	Restored string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s\n  live     %s\n  restored %s", d.Where, d.Live, d.Restored)
}

// Compare returns the differences that the rules don't explain; none if the sides are
// equal. It fails only for states that can't be encoded.
func Compare(live, restored reducer.State, r Rules) ([]Difference, error) {
	c := comparison{rules: r, deep: r.deepThreads(live, restored)}
	c.blocks(event.Main, live.Blocks, restored.Blocks)
	c.subagents(c.threads(live), c.threads(restored))
	return c.found, c.err
}

// comparison collects differences.
type comparison struct {
	rules Rules
	deep  map[string]bool
	found []Difference
	err   error
}

// deepThreads returns the threads whose depth in one of the states is at least
// UnsentDepth.
func (r Rules) deepThreads(states ...reducer.State) map[string]bool {
	deep := map[string]bool{}
	if r.UnsentDepth == 0 {
		return deep
	}
	for _, s := range states {
		parents := parentsOf(s)
		for _, sub := range s.Subagents {
			if depth(sub.ToolUseID, parents) >= r.UnsentDepth {
				deep[sub.ToolUseID] = true
			}
		}
	}
	return deep
}

// parentsOf maps each subagent to the subagent whose thread refers to it.
func parentsOf(s reducer.State) map[string]string {
	parents := map[string]string{}
	for _, sub := range s.Subagents {
		for _, b := range sub.Blocks {
			if b.Type == event.BlockSubagent {
				parents[b.ToolUseID] = sub.ToolUseID
			}
		}
	}
	return parents
}

func depth(id string, parents map[string]string) int {
	n := 1
	for parents[id] != "" && n <= len(parents) {
		id = parents[id]
		n++
	}
	return n
}

// threads returns the subagents that both sides must have.
func (c *comparison) threads(s reducer.State) []reducer.Subagent {
	var out []reducer.Subagent
	for _, sub := range s.Subagents {
		if !c.deep[sub.ToolUseID] {
			out = append(out, sub)
		}
	}
	return out
}

func (c *comparison) subagents(live, restored []reducer.Subagent) {
	for i := range max(len(live), len(restored)) {
		where := fmt.Sprintf("subagent %d", i)
		switch {
		case i >= len(live):
			c.add(where, nil, restored[i])
		case i >= len(restored):
			c.add(where, live[i], nil)
		default:
			c.subagent(where+" "+live[i].ToolUseID, live[i], restored[i])
		}
	}
}

func (c *comparison) subagent(where string, live, restored reducer.Subagent) {
	liveBlocks, restoredBlocks := live.Blocks, restored.Blocks
	if c.rules.UnsentText {
		restoredBlocks = withoutUnsent(liveBlocks, restoredBlocks)
	}
	live.Blocks, restored.Blocks = nil, nil
	live.DurationMS, restored.DurationMS = nil, nil
	if c.rules.NoCommonIDs {
		restored.ToolUseID, restored.AgentID = live.ToolUseID, live.AgentID
	}
	c.equal(where, live, restored)
	c.blocks(where, liveBlocks, restoredBlocks)
}

func (c *comparison) blocks(where string, live, restored []event.Block) {
	for i := range max(len(live), len(restored)) {
		at := fmt.Sprintf("%s block %d", where, i)
		switch {
		case i >= len(live):
			c.add(at, nil, restored[i])
		case i >= len(restored):
			c.add(at, live[i], nil)
		default:
			l, r := timeless(live[i]), c.align(live[i], timeless(restored[i]))
			if l.Usage == nil || r.Usage == nil {
				l.Usage, r.Usage = nil, nil // an agent may write a block before its call has ended
			}
			c.equal(at, l, r)
		}
	}
}

// align sets a restored block's id to that of its live counterpart, if the rules allow
// them to differ.
func (c *comparison) align(live, restored event.Block) event.Block {
	prefix := c.rules.UngivenPrefix
	ungiven := prefix != "" && live.Type == event.BlockUserMessage && strings.HasPrefix(live.ID, prefix)
	if ungiven || c.rules.NoCommonIDs {
		restored.ID = live.ID
	}
	if c.rules.NoCommonIDs {
		restored.ToolUseID, restored.SubagentID = live.ToolUseID, live.SubagentID
	}
	return restored
}

// timeless returns a block without times and durations.
func timeless(b event.Block) event.Block {
	b.Timestamp, b.DurationMS = event.Block{}.Timestamp, nil
	return b
}

// withoutUnsent drops the blocks that the live side may not have in a thread.
func withoutUnsent(live, restored []event.Block) []event.Block {
	sent := map[string]bool{}
	for _, b := range live {
		sent[b.ID] = true
	}
	var kept []event.Block
	for _, b := range restored {
		if sent[b.ID] || !said(b.Type) {
			kept = append(kept, b)
		}
	}
	return kept
}

// said reports whether a block is something a subagent says, errors and interruptions
// included, and not something it does.
func said(t event.BlockType) bool {
	return t.HasText() || t == event.BlockError || t == event.BlockSystem
}

func (c *comparison) equal(where string, live, restored any) {
	l, r := c.encode(live), c.encode(restored)
	if !bytes.Equal(l, r) {
		c.found = append(c.found, Difference{where, string(l), string(r)})
	}
}

func (c *comparison) add(where string, live, restored any) {
	d := Difference{Where: where}
	if live != nil {
		d.Live = string(c.encode(live))
	}
	if restored != nil {
		d.Restored = string(c.encode(restored))
	}
	c.found = append(c.found, d)
}

// encode returns canonical JSON: keys sorted, numbers as they are written.
func (c *comparison) encode(v any) []byte {
	data, err := json.Marshal(v)
	if err == nil {
		var plain any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err = dec.Decode(&plain); err == nil {
			data, err = json.Marshal(plain)
		}
	}
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("parity: encode: %w", err)
	}
	return data
}
