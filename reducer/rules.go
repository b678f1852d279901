package reducer

import (
	"cmp"
	"encoding/json"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/internal/normal"
)

// main is the index of the session's own conversation; subagents count from 0.
const main = -1

// tree is the state as the rules see it. The rules are written once; a copyOnWrite
// implements it by copying, a Builder by indexes.
type tree interface {
	// lookup finds a subagent as the function lookup does.
	lookup(toolUseID, agentID string) int
	subagent(at int) Subagent // without its blocks
	addSubagent(Subagent) int
	setSubagent(at int, s Subagent) // without changing its blocks

	block(at int, id string) (event.Block, bool)
	addBlock(at int, b event.Block)
	setBlock(at int, b event.Block) // by its id, which exists
	dropBlock(at int, id string)    // by its id, which exists
	// locate returns the conversation with a reference block: main first, then the
	// subagents in their order.
	locate(refID string) (at int, ok bool)

	appendText(at int, id, delta string)
	complete(at int)
}

// apply applies one event to a tree. An event that does not concern the
// conversation has no effect.
func apply(t tree, e event.Event) {
	switch p := e.Payload.(type) {
	case event.BlockUpsert:
		upsert(t, e.Context, normalBlock(p.Block))
	case event.BlockDelta:
		delta(t, e.Context.Conversation(), p)
	case event.SubagentSpawned:
		spawned(t, e.Context, p)
	case event.SubagentCompleted:
		completed(t, p)
	case event.SessionIdle:
		if at, known := conversation(t, e.Context.Conversation()); known {
			t.complete(at)
		}
	}
}

func conversation(t tree, id string) (at int, known bool) {
	if id == event.Main {
		return main, true
	}
	at = t.lookup(id, id)
	return at, at >= 0
}

// upsert merges into the existing block, or creates it. A block for an unknown
// conversation creates the subagent, since its events may overtake its
// announcement.
func upsert(t tree, ctx event.Context, given event.Block) {
	if given.ID == "" {
		return
	}
	at, known := conversation(t, ctx.Conversation())
	if known {
		old, ok := t.block(at, given.ID)
		switch {
		case ok && recreates(old, given):
			t.dropBlock(at, given.ID)
		case ok:
			change(t, ctx, at, old, given)
			return
		}
	}
	if given.Type == "" || neverSeen(create(given, ctx)) {
		return
	}
	if !known {
		at = t.addSubagent(Subagent{ToolUseID: ctx.Conversation(), Status: event.ExecutionRunning})
	}
	t.addBlock(at, create(given, ctx))
}

// change merges into the existing block, and drops it if no subscriber has seen
// anything of it. Repeated, such an upsert creates nothing.
func change(t tree, ctx event.Context, at int, old, given event.Block) {
	b, changed := merge(old, given)
	switch {
	case neverSeen(b) && (given.Type == "" || neverSeen(create(given, ctx))):
		t.dropBlock(at, b.ID)
	case changed:
		t.setBlock(at, b)
	}
}

func delta(t tree, conv string, d event.BlockDelta) {
	if d.Delta == "" {
		return
	}
	if at, known := conversation(t, conv); known {
		t.appendText(at, d.BlockID, d.Delta)
	}
}

// spawned ensures that the subagent exists and that its parent has its reference
// block.
func spawned(t tree, ctx event.Context, p event.SubagentSpawned) {
	id := cmp.Or(p.ToolUseID, p.AgentID)
	if id == "" {
		return
	}
	at := t.lookup(id, p.AgentID)
	if at < 0 {
		at = t.addSubagent(Subagent{ToolUseID: id, Status: event.ExecutionRunning})
	}
	s := t.subagent(at)
	name(&s, p.AgentID, p.ChildSessionID)
	s.Prompt = cmp.Or(s.Prompt, p.Prompt)
	update(t, at, s)
	show(t, ctx, at, reference(s, p))
}

// name sets the subagent's ids that are not set yet; the first one is kept.
func name(s *Subagent, agentID, childSessionID string) {
	s.AgentID = cmp.Or(s.AgentID, agentID)
	s.ChildSessionID = cmp.Or(s.ChildSessionID, childSessionID)
}

// reference returns the block that represents s in its parent.
func reference(s Subagent, p event.SubagentSpawned) event.Block {
	b := outcome(s)
	b.ToolUseID = s.ToolUseID
	b.Name = p.SubagentType
	b.Description = p.Description
	if s.Prompt != "" {
		b.Input = normal.Text(s.Prompt)
	}
	return b
}

// outcome returns the part of the reference block that depends on the subagent's
// state.
func outcome(s Subagent) event.Block {
	b := event.Block{
		ID:         event.SubagentBlockID(s.ToolUseID),
		Type:       event.BlockSubagent,
		Execution:  s.Status,
		DurationMS: s.DurationMS,
	}
	if s.AgentID != "" {
		b.SubagentID = "agent-" + s.AgentID
	}
	if s.Output != nil {
		b.Output = normal.Text(*s.Output)
	}
	switch s.Status {
	case event.ExecutionSuccess:
		b.Status = event.StatusComplete
	case event.ExecutionError:
		b.Status = event.StatusError
	}
	return b
}

// show adds the reference block of subagent child to the parent's conversation,
// or sets what the existing one lacks.
func show(t tree, ctx event.Context, child int, ref event.Block) {
	if at, ok := t.locate(ref.ID); ok {
		old, _ := t.block(at, ref.ID)
		if b, changed := merge(old, lacking(old, ref)); changed {
			t.setBlock(at, b)
		}
		return
	}
	parent, known := conversation(t, ctx.Conversation())
	if !known || parent == child {
		parent = main
	}
	t.addBlock(parent, create(ref, ctx))
}

// lacking returns the part of ref for which the existing block has no value.
func lacking(old, ref event.Block) event.Block {
	given := event.Block{ID: ref.ID, Type: ref.Type}
	if old.ToolUseID == "" {
		given.ToolUseID = ref.ToolUseID
	}
	if old.SubagentID == "" {
		given.SubagentID = ref.SubagentID
	}
	if old.Name == "" {
		given.Name = ref.Name
	}
	if old.Description == "" {
		given.Description = ref.Description
	}
	if old.Input == nil || string(old.Input) == noPrompt {
		given.Input = ref.Input
	}
	if old.Execution == "" || old.Execution == event.ExecutionPending {
		given.Execution, given.Status = ref.Execution, ref.Status
	}
	return given
}

// completed ends the subagent. One that was not announced is created ended, and
// its reference block is created by the announcement.
func completed(t tree, p event.SubagentCompleted) {
	id := cmp.Or(p.ToolUseID, p.AgentID)
	if id == "" {
		return
	}
	at := t.lookup(id, p.AgentID)
	if at < 0 {
		at = t.addSubagent(Subagent{ToolUseID: id, Status: event.ExecutionRunning})
	}
	s := t.subagent(at)
	name(&s, p.AgentID, p.ChildSessionID)
	s.Status = event.ExecutionError
	if p.Status == event.SubagentCompletedOK {
		s.Status = event.ExecutionSuccess
	}
	s.Output = cmp.Or(p.Output, s.Output)
	nothing := s.Output != nil && *s.Output == ""
	if nothing {
		s.Output = nil
	}
	s.DurationMS = cmp.Or(p.DurationMS, s.DurationMS)
	update(t, at, s)
	conclude(t, s, nothing)
}

// update writes s unless that would change nothing.
func update(t tree, at int, s Subagent) {
	old := t.subagent(at)
	same := s.AgentID == old.AgentID && s.ChildSessionID == old.ChildSessionID &&
		s.Status == old.Status && s.Prompt == old.Prompt &&
		equalPointers(s.Output, old.Output) && equalPointers(s.DurationMS, old.DurationMS)
	if !same {
		t.setSubagent(at, s)
	}
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// conclude writes the subagent's outcome to its reference block, wherever it is.
// nothing means that it has no output: that clears an earlier one.
func conclude(t tree, s Subagent, nothing bool) {
	ref := outcome(s)
	if nothing {
		ref.Output = json.RawMessage(`null`)
	}
	at, ok := t.locate(ref.ID)
	if !ok {
		return
	}
	old, _ := t.block(at, ref.ID)
	if b, changed := merge(old, ref); changed {
		t.setBlock(at, b)
	}
}
