package loss

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Options configure [Difference] for a conversation whose agent was lost.
type Options struct {
	// At is the time of the events. Default: none.
	At time.Time
	// AskedAgain are the ids of users' messages that an agent will be sent again: the
	// blocks streamed for them before are lost, like the agent's own text. Default: none; a
	// message that the agent did not persist is kept as it was sent.
	AskedAgain []string
	// Asked are the ids under which the agent may have received the message that it was
	// working on: one that is in the transcripts is emitted although no subscriber has it.
	// Default: none.
	Asked []string
	// Chosen are the messages of users' blocks whose ids the agent chose, by those ids. A
	// message that the agent did not persist is kept under its own id. Default: under that
	// of its block.
	Chosen map[string]string
}

// Difference returns the events that make the live conversation and the one
// restored from the agent's transcripts equal, after the agent was lost. An agent
// persists and streams independently, so a crash loses from both sides.
//
//   - Events with the source server are what was streamed and no transcript has.
//     They are for both sides: live they mark blocks as lost (status error,
//     metadata "lost") and as server blocks; kept in Sojourn's transcript, each
//     after the block that it follows live, they restore those blocks whole.
//   - Events with another source are what the transcripts have and subscribers
//     did not receive, or received otherwise. They are for the live side alone.
//
// live may be the last part of the conversation; restored then begins no earlier.
// What the transcripts have between streamed blocks is what the agent's protocol
// never sends, and is ignored. See D1 to D7 in the package's doc.
func Difference(live, restored reducer.State, o Options) []event.Event {
	d := difference{live: live, restored: restored, o: o}
	d.conversation(event.Main, live.Blocks, restored.Blocks)
	for _, sub := range live.Subagents {
		if sub.Native() {
			d.conversation(sub.ToolUseID, sub.Blocks, thread(restored, sub.ToolUseID, sub.AgentID).Blocks)
		}
	}
	d.orphans()
	return d.out
}

// Keep returns the events that turn into server blocks what the agent itself
// reported as lost (a text that an interrupt cut off, say): the part of
// [Difference] that needs no transcript.
func Keep(live reducer.State, at time.Time) []event.Event {
	d := difference{live: live, o: Options{At: at}}
	d.keep(event.Main, live.Blocks)
	for _, sub := range live.Subagents {
		d.keep(sub.ToolUseID, sub.Blocks)
	}
	return d.out
}

// difference collects events.
type difference struct {
	live, restored reducer.State
	o              Options
	out            []event.Event
}

func (d *difference) say(conversation string, source event.Source, p event.Payload) {
	d.out = append(d.out, event.Event{Payload: p, Context: event.Context{
		ConversationID: conversation, Source: source, Timestamp: d.o.At,
	}})
}

func (d *difference) newStory(conversation string, b event.Block) {
	d.say(conversation, event.SourceRunner, event.BlockUpsert{Block: b})
}

func (d *difference) keep(conversation string, blocks []event.Block) {
	for _, b := range blocks {
		if reducer.Lost(b) && b.Source != event.SourceServer {
			d.lose(conversation, b)
		}
	}
}

func (d *difference) conversation(id string, live, restored []event.Block) {
	saved := make(map[string]event.Block, len(restored))
	for _, b := range restored {
		saved[b.ID] = b
	}
	said := make(map[string]bool, len(live))
	unasked := d.unasked(id, live, saved)
	d.asked(id, live, restored, said)
	for _, b := range live {
		said[b.ID] = true
		s, isSaved := saved[b.ID]
		switch {
		case !isSaved && b.ID == unasked:
			d.keepPrompt(id, b)
		case isSaved && !sameBlock(b, s):
			if b.Type == event.BlockSubagent && s.Execution != b.Execution {
				d.ended(id, s)
			}
			d.newStory(id, s)
		case isSaved, b.Source == event.SourceServer:
		case !reducer.Lost(b) && id == event.Main && b.Type == event.BlockUserMessage && !slices.Contains(d.o.AskedAgain, b.ID):
			d.keepPrompt(id, b)
		default:
			d.lose(id, b)
		}
	}
	d.behind(id, restored, said)
}

// asked emits the message that the agent was working on and had not streamed yet.
func (d *difference) asked(conversation string, live, restored []event.Block, said map[string]bool) {
	for _, b := range restored {
		unsaid := !slices.ContainsFunc(live, func(l event.Block) bool { return l.ID == b.ID })
		if conversation == event.Main && unsaid && slices.Contains(d.o.Asked, b.ID) {
			d.newStory(conversation, b)
			said[b.ID] = true
		}
	}
}

// unasked returns the lost user message that was to be sent again, and was not; "" for
// none.
func (d *difference) unasked(conversation string, live []event.Block, saved map[string]event.Block) (id string) {
	for _, b := range live {
		switch {
		case conversation != event.Main || b.Type != event.BlockUserMessage:
		case reducer.Lost(b) && !slices.Contains(d.o.AskedAgain, b.ID):
			id = b.ID
		case b.Source != event.SourceServer:
			id = ""
		}
	}
	return id
}

// keepPrompt turns a user message that the agent did not persist into a server
// block, so that it is never lost. An id that the agent chose may be reused for
// the next message, since no transcript has it: then the message is kept under
// its own id.
func (d *difference) keepPrompt(conversation string, b event.Block) {
	b.Source, b.Status = event.SourceServer, event.StatusComplete
	b.Metadata = maps.Clone(b.Metadata)
	delete(b.Metadata, "lost")
	if id := d.o.Chosen[b.ID]; id != "" {
		d.lose(conversation, event.Block{ID: b.ID, Type: b.Type, Content: new("")})
		b.ID = id
	}
	d.say(conversation, event.SourceServer, event.BlockUpsert{Block: b})
}

// lose turns a block that no transcript has into a server block, whole.
func (d *difference) lose(conversation string, b event.Block) {
	if b.Type == event.BlockSubagent {
		d.loseSubagent(conversation, b)
	}
	b.Source, b.Status = event.SourceServer, event.StatusError
	if b.Execution == event.ExecutionRunning || b.Execution == event.ExecutionPending {
		b.Execution = event.ExecutionError
	}
	b.Metadata = maps.Clone(b.Metadata)
	if b.Metadata == nil {
		b.Metadata = map[string]json.RawMessage{}
	}
	b.Metadata["lost"] = json.RawMessage("true")
	d.say(conversation, event.SourceServer, event.BlockUpsert{Block: b})
}

// loseSubagent repeats the start and end of a subagent whose call is lost. A running one
// ended with its agent.
func (d *difference) loseSubagent(conversation string, b event.Block) {
	sub, ok := d.live.Subagent(b.ToolUseID, "")
	if !ok {
		return
	}
	d.say(conversation, event.SourceServer, event.SubagentSpawned{
		ToolUseID: sub.ToolUseID, AgentID: sub.AgentID, ChildSessionID: sub.ChildSessionID,
		Prompt: sub.Prompt, SubagentType: b.Name, Description: b.Description,
	})
	d.say(conversation, event.SourceServer, event.SubagentCompleted{
		ToolUseID: sub.ToolUseID, AgentID: sub.AgentID, ChildSessionID: sub.ChildSessionID,
		Status: completion(sub.Status), Output: sub.Output, DurationMS: sub.DurationMS,
	})
}

func completion(x event.Execution) event.SubagentResult {
	if x == event.ExecutionSuccess {
		return event.SubagentCompletedOK
	}
	return event.SubagentFailed
}

// sameBlock reports whether a transcript has a block as it was streamed. Times,
// and durations made from them, may differ between the sides.
func sameBlock(live, saved event.Block) bool {
	live.Timestamp, live.DurationMS = saved.Timestamp, saved.DurationMS
	if saved.Usage == nil {
		live.Usage = nil // an agent may write a block before its call has ended
	}
	a, aerr := json.Marshal(live)
	b, berr := json.Marshal(saved)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// behind emits what the transcripts have after everything that was streamed; nothing for
// the main conversation if nothing was streamed.
func (d *difference) behind(conversation string, restored []event.Block, said map[string]bool) {
	last := len(restored) - 1
	for last >= 0 && !said[restored[last].ID] {
		last--
	}
	if last < 0 && conversation == event.Main {
		return
	}
	for _, b := range restored[last+1:] {
		if b.Type == event.BlockSubagent {
			d.emitSubagent(conversation, b)
			continue
		}
		d.newStory(conversation, b)
	}
}

// ended emits the end of a subagent as the transcripts have it.
func (d *difference) ended(conversation string, b event.Block) {
	sub := thread(d.restored, b.ToolUseID, "")
	done := event.SubagentCompleted{ToolUseID: b.ToolUseID, AgentID: sub.AgentID, Status: completion(b.Execution), Output: sub.Output}
	if done.Output == nil {
		done.Output = new(string) // clears the streamed output
	}
	d.say(conversation, event.SourceRunner, done)
}

// emitSubagent emits a whole subagent that was not streamed.
func (d *difference) emitSubagent(conversation string, b event.Block) {
	sub := thread(d.restored, b.ToolUseID, "")
	d.say(conversation, event.SourceRunner, event.SubagentSpawned{
		ToolUseID: b.ToolUseID, AgentID: sub.AgentID, Prompt: sub.Prompt, SubagentType: b.Name, Description: b.Description,
	})
	d.emitThread(sub)
	if b.Execution != event.ExecutionRunning {
		d.ended(conversation, b)
	}
}

// emitThread emits a subagent's thread, unless part of it was streamed: then its
// conversation is compared by itself.
func (d *difference) emitThread(sub reducer.Subagent) {
	if _, streamed := d.live.Subagent(sub.ToolUseID, ""); streamed {
		return
	}
	for _, b := range sub.Blocks {
		if b.Type == event.BlockSubagent {
			d.emitSubagent(sub.ToolUseID, b)
			continue
		}
		d.newStory(sub.ToolUseID, b)
	}
}

// orphans emits the threads without a call: the agent persisted the thread and
// not its call.
func (d *difference) orphans() {
	called := map[string]bool{}
	note := func(blocks []event.Block) {
		for _, b := range blocks {
			called[b.ToolUseID] = called[b.ToolUseID] || b.Type == event.BlockSubagent
		}
	}
	note(d.restored.Blocks)
	for _, sub := range d.restored.Subagents {
		note(sub.Blocks)
	}
	for _, sub := range d.restored.Subagents {
		if _, streamed := d.live.Subagent(sub.ToolUseID, sub.ToolUseID); streamed || called[sub.ToolUseID] {
			continue
		}
		d.emitThread(sub)
		// A subagent that is running in the transcripts ended with its agent. That end
		// is a server event, for both sides.
		source := event.SourceRunner
		if sub.Status == event.ExecutionRunning {
			source = event.SourceServer
		}
		d.say(event.Main, source, event.SubagentCompleted{
			ToolUseID: sub.ToolUseID, AgentID: sub.AgentID, Status: completion(sub.Status), Output: sub.Output, DurationMS: sub.DurationMS,
		})
	}
}

// thread returns the subagent with a toolUseId. If its call is missing, an
// agent's transcript has it under the agent's own name. Returns an empty one if
// there is none.
func thread(s reducer.State, toolUseID, agentID string) reducer.Subagent {
	sub, ok := s.Subagent(toolUseID, "")
	if !ok {
		sub, _ = s.Subagent(agentID, "")
	}
	return sub
}
