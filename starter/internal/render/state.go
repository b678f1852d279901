package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// State shows a whole conversation: every tool with its result, every subagent
// where it was started.
func (p *Printer) State(s reducer.State) error {
	w := walk{p: p, subagents: s.Subagents, shown: map[string]bool{}}
	w.blocks(p.main, s.Blocks)
	for _, sub := range s.Subagents {
		if !w.shown[sub.ToolUseID] {
			w.orphan(sub)
		}
	}
	return p.Flush()
}

// Recent shows a conversation from its last user message on, and how many blocks
// precede it. Events that continue from there may follow.
func (p *Printer) Recent(s reducer.State) error {
	from := len(s.Blocks)
	for i := len(s.Blocks) - 1; i >= 0 && from == len(s.Blocks); i-- {
		if s.Blocks[i].Type == event.BlockUserMessage {
			from = i
		}
	}
	if from == len(s.Blocks) {
		from = 0
	}
	if from > 0 {
		p.note(p.main, dim, fmt.Sprintf("· %d blocks before this are in sojourn show", from))
	}
	w := walk{p: p, subagents: s.Subagents, shown: map[string]bool{}}
	w.blocks(p.main, s.Blocks[from:])
	return p.Flush()
}

// walk visits a state, depth first.
type walk struct {
	p         *Printer
	subagents []reducer.Subagent
	// shown prevents an endless loop on a malformed state.
	shown map[string]bool
}

func (w *walk) blocks(l *lane, blocks []event.Block) {
	results := map[string]event.Block{}
	for _, b := range blocks {
		if b.Type == event.BlockToolResult {
			results[b.ToolUseID] = b
		}
	}
	for _, b := range blocks {
		w.block(l, b, results)
	}
}

func (w *walk) block(l *lane, b event.Block, results map[string]event.Block) {
	switch b.Type {
	case event.BlockToolUse:
		w.tool(l, b, results)
	case event.BlockToolResult:
		if tool := w.p.tools[b.ToolUseID]; tool == nil || !tool.resulted {
			w.p.upsert(l, b, b.Timestamp)
		}
	case event.BlockSubagent:
		w.reference(l, b)
	default:
		w.p.upsert(l, b, b.Timestamp)
	}
}

// tool shows a call as one line with its result; one that started a subagent
// encloses the subagent's lines.
func (w *walk) tool(l *lane, b event.Block, results map[string]event.Block) {
	sub, spawned := w.take(b.ToolUseID)
	result, ended := results[b.ToolUseID]
	known := &block{lane: l, typ: b.Type, begun: b.Timestamp}
	known.merge(b)
	known.noteLost(b)
	w.p.blocks[key{l.id, b.ID}] = known
	w.p.tools[b.ToolUseID] = known
	if spawned || !ended {
		w.p.announce(known)
	}
	if spawned {
		w.thread(l, sub, event.SubagentSpawned{ToolUseID: sub.ToolUseID, SubagentType: agentType(b)})
	}
	switch {
	case ended:
		w.p.upsert(l, result, result.Timestamp)
	case b.Execution == event.ExecutionError:
		known.resulted = true
		w.p.result(known, markFailed, 0, nil)
	}
}

// take returns a subagent that was not shown yet.
func (w *walk) take(id string) (reducer.Subagent, bool) {
	i := slices.IndexFunc(w.subagents, func(s reducer.Subagent) bool { return s.ToolUseID == id })
	if i < 0 || w.shown[id] {
		return reducer.Subagent{}, false
	}
	w.shown[id] = true
	return w.subagents[i], true
}

func (w *walk) thread(parent *lane, sub reducer.Subagent, how event.SubagentSpawned) {
	l := w.p.spawn(parent, how)
	w.blocks(l, sub.Blocks)
}

// reference shows a subagent without a tool call, such as a child session.
func (w *walk) reference(l *lane, b event.Block) {
	sub, ok := w.take(b.ToolUseID)
	if !ok {
		return
	}
	how := event.SubagentSpawned{
		ToolUseID: sub.ToolUseID, SubagentType: b.Name, Description: b.Description,
		Prompt: sub.Prompt, ChildSessionID: sub.ChildSessionID,
	}
	w.p.spawned(l, how)
	w.blocks(w.p.lane(sub.ToolUseID), sub.Blocks)
	w.end(l, sub)
}

// orphan shows a subagent that no conversation refers to.
func (w *walk) orphan(sub reducer.Subagent) {
	w.reference(w.p.main, event.Block{ToolUseID: sub.ToolUseID, Description: cmp.Or(sub.Prompt, "subagent")})
}

func (w *walk) end(parent *lane, sub reducer.Subagent) {
	if sub.Status == event.ExecutionRunning {
		return
	}
	status := event.SubagentCompletedOK
	if sub.Status != event.ExecutionSuccess {
		status = event.SubagentFailed
	}
	w.p.completed(parent, event.SubagentCompleted{
		ToolUseID: sub.ToolUseID, Status: status, DurationMS: sub.DurationMS, ChildSessionID: sub.ChildSessionID,
	})
}

// agentType returns the kind of subagent from the tool's input.
func agentType(b event.Block) string {
	fields := jsonFields(b.Input)
	for _, name := range []string{"subagent_type", "agent", "name", "description"} {
		if text, ok := textField(fields, name); ok {
			return text
		}
	}
	return ""
}
